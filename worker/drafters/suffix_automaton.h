#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace lockstep::worker {

// Finds what the end of a text repeats. Tokens are appended one at a time.
//
// The suffix automaton (Blumer et al., "The smallest automaton recognizing the subwords of a text",
// 1985). A state stands for all substrings that end at the same places. Its link leads to the
// longest suffix of these substrings that also ends elsewhere. A text of n tokens has at most 2n
// states and 3n edges, and takes amortised O(n) time, however it repeats. Keeps no copy of the
// text.
class SuffixAutomaton {
 public:
  SuffixAutomaton() { Clear(); }

  // Forgets the text, and frees its memory.
  void Clear();
  // At most 2^30 tokens.
  void Append(TokenId token);

  uint32_t size() const { return states_[last_].length; }  // tokens of the text
  // The longest suffix of the text that also ends earlier. The `length` tokens before `end` equal
  // the last `length` tokens of the text, and `end` < size() is the first place where they end. The
  // two may overlap. Length 0: the last token is new.
  struct Repeat {
    uint32_t length = 0;
    uint32_t end = 0;
  };
  Repeat LongestRepeat() const;

  size_t num_states() const { return states_.size(); }
  size_t num_edges() const { return edges_.size(); }

 private:
  using StateId = uint32_t;
  using EdgeId = uint32_t;

  struct State {
    uint32_t length = 0;     // of the longest substring
    uint32_t first_end = 0;  // where its substrings end first
    StateId link = 0;
    EdgeId first_edge = 0;  // of a list
  };
  struct Edge {
    StateId from = 0;
    TokenId token = 0;
    StateId to = 0;
    EdgeId next = 0;  // of the same state
  };

  // Null if the state has no such edge. Valid until an edge is added.
  Edge* Find(StateId from, TokenId token);
  void AddEdge(StateId from, TokenId token, StateId to);
  StateId AddState(const State& state);
  // A state with the shorter substrings of `state`, which keeps the longer ones.
  StateId Split(StateId state, uint32_t length);
  // The place in table_ of this edge, or the free place where it belongs.
  size_t PlaceOf(StateId from, TokenId token) const;
  void GrowTable();

  std::vector<State> states_;  // [0]: the empty text
  std::vector<Edge> edges_;
  std::vector<EdgeId> table_;  // hash table of edges, at most half full; its size is a power of two
  StateId last_ = 0;           // of the whole text
};

}  // namespace lockstep::worker
