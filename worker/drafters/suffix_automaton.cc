#include "worker/drafters/suffix_automaton.h"

#include <limits>
#include <utility>

namespace lockstep::worker {
namespace {

constexpr uint32_t kNoEdge = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNoState = std::numeric_limits<uint32_t>::max();  // the link of the empty text
constexpr size_t kFirstPlaces = 64;

// Mixes the two halves so that the low bits depend on all of them.
uint64_t HashEdge(uint32_t from, uint32_t token) {
  const uint64_t key = (uint64_t{from} << 32 | token) * 0x9e3779b97f4a7c15;
  return key ^ key >> 32;
}

}  // namespace

void SuffixAutomaton::Clear() {
  states_ = {{.link = kNoState, .first_edge = kNoEdge}};
  edges_ = {};
  table_ = std::vector<EdgeId>(kFirstPlaces, kNoEdge);
  last_ = 0;
}

void SuffixAutomaton::Append(TokenId token) {
  const uint32_t length = size() + 1;
  const StateId added = AddState({.length = length, .first_end = length, .first_edge = kNoEdge});
  StateId state = std::exchange(last_, added);
  const Edge* edge = nullptr;
  for (; state != kNoState; state = states_[state].link) {
    edge = Find(state, token);
    if (edge != nullptr) break;
    AddEdge(state, token, added);
  }
  if (state == kNoState) return;  // a new token: its only earlier suffix is the empty text
  const StateId target = edge->to;
  const uint32_t repeated = states_[state].length + 1;
  if (states_[target].length == repeated) {
    states_[added].link = target;
    return;
  }
  const StateId split = Split(target, repeated);
  for (; state != kNoState; state = states_[state].link) {
    Edge* const to_target = Find(state, token);
    if (to_target == nullptr || to_target->to != target) break;
    to_target->to = split;
  }
  states_[target].link = split;
  states_[added].link = split;
}

SuffixAutomaton::Repeat SuffixAutomaton::LongestRepeat() const {
  const StateId link = states_[last_].link;
  if (link == kNoState) return {};
  return {.length = states_[link].length, .end = states_[link].first_end};
}

SuffixAutomaton::Edge* SuffixAutomaton::Find(StateId from, TokenId token) {
  const EdgeId edge = table_[PlaceOf(from, token)];
  return edge == kNoEdge ? nullptr : &edges_[edge];
}

void SuffixAutomaton::AddEdge(StateId from, TokenId token, StateId to) {
  if (2 * (edges_.size() + 1) > table_.size()) GrowTable();
  const auto id = static_cast<EdgeId>(edges_.size());
  table_[PlaceOf(from, token)] = id;
  edges_.push_back({.from = from, .token = token, .to = to, .next = states_[from].first_edge});
  states_[from].first_edge = id;
}

SuffixAutomaton::StateId SuffixAutomaton::AddState(const State& state) {
  states_.push_back(state);
  return static_cast<StateId>(states_.size() - 1);
}

SuffixAutomaton::StateId SuffixAutomaton::Split(StateId state, uint32_t length) {
  const StateId split = AddState({.length = length,
                                  .first_end = states_[state].first_end,
                                  .link = states_[state].link,
                                  .first_edge = kNoEdge});
  for (EdgeId id = states_[state].first_edge; id != kNoEdge; id = edges_[id].next) {
    AddEdge(split, edges_[id].token, edges_[id].to);
  }
  return split;
}

size_t SuffixAutomaton::PlaceOf(StateId from, TokenId token) const {
  const size_t mask = table_.size() - 1;
  size_t place = HashEdge(from, token) & mask;
  for (;; place = (place + 1) & mask) {
    const EdgeId id = table_[place];
    if (id == kNoEdge || (edges_[id].from == from && edges_[id].token == token)) return place;
  }
}

void SuffixAutomaton::GrowTable() {
  table_.assign(2 * table_.size(), kNoEdge);
  for (EdgeId id = 0; id < edges_.size(); ++id) {
    table_[PlaceOf(edges_[id].from, edges_[id].token)] = id;
  }
}

}  // namespace lockstep::worker
