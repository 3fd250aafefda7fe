// The planner's other half: which waiting sequence starts next, and how it starts.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "router/core/plan/planner.h"

namespace lockstep::router {
namespace {

constexpr size_t kSlotsPerKept = 16;
constexpr uint64_t kStartsPerTurn = 16;

// Token ids in the lists of a request. The worker is told them with every start.
size_t NumListed(const SamplingParams& sampling) {
  return sampling.logit_bias.size() + sampling.allowed_token_ids.size() +
         sampling.stop_token_ids.size();
}

}  // namespace

Sequence* Planner::FirstWaiting() const {
  std::vector<Sequence*> startable;
  startable.reserve(population_.waiting().size());
  for (Sequence* sequence : population_.waiting()) {
    if (sequence->request->MayStart(*sequence)) startable.push_back(sequence);
  }
  if (startable.empty() || state_.num_starts % kStartsPerTurn != kStartsPerTurn - 1) {
    return FairFirst(startable);
  }
  Sequence* const first = FirstInPolicyOrder(startable);
  return KeptFrom(*first) ? FairFirst(startable) : first;
}

bool Planner::PlanSuspectAlone() {
  iterations_ = 1;
  const auto suspect = [](const Sequence* sequence) { return sequence->suspect(); };
  const bool any_runs = std::ranges::any_of(population_.running(), suspect);
  lease_.has_suspects = any_runs || std::ranges::any_of(population_.waiting(), suspect);
  if (any_runs && PlanRunningSuspect()) return true;
  if (lease_.draining || population_.running().size() >= max_running_) return false;
  Sequence* first = FirstWaiting();
  if (first == nullptr || !first->suspect() || !std::holds_alternative<Waiting>(first->state)) {
    return false;
  }
  if (!lease_.in_flight.empty()) return true;
  if (!StartIfFits(*first)) return false;
  const Residency& residency = *first->running();
  AddChunk(*first,
           std::min(PrefillBudget({}), residency.planned_known - residency.planned_computed));
  return true;
}

// A suspect runs alone until it gets further than before its refusals or losses. Meanwhile the
// other sequences keep their slots and blocks. If the suspect lacks blocks, the others run without
// it.
bool Planner::PlanRunningSuspect() {
  const auto is_tried = [](const Sequence* sequence) {
    return sequence->suspect() && sequence->running()->rows_in_flight > 0;
  };
  if (std::ranges::any_of(population_.running(), is_tried)) return true;
  ReserveDecodeBlocks();
  for (Sequence* sequence : population_.running()) {
    if (!sequence->suspect() || !MayRun(*sequence)) continue;
    if (Decodes(*sequence) && !HasBlocks(*sequence)) continue;
    if (!lease_.in_flight.empty()) return true;
    const Residency& residency = *sequence->running();
    const uint32_t num_left = residency.planned_known - residency.planned_computed;
    if (AddChunk(*sequence, std::min(PrefillBudget({}), num_left)) > 0) return true;
  }
  return false;
}

bool Planner::KeptFrom(const Sequence& sequence) const {
  const size_t num_kept = max_running_ / kSlotsPerKept;
  return population_.tenants().several() &&
         population_.running().size() + num_kept >= max_running_ &&
         sequence.request->share->num_running >= num_kept;
}

bool Planner::HasRoomToStart() const {
  return !lease_.draining && !starved_ && population_.running().size() < max_running_ &&
         num_started_ids_ < state_.config.max_started_ids_per_step;
}

bool Planner::PaceHoldsBack() const {
  return plan_.num_decode_tokens > 0 && !state_.budget.MayStartBesideDecodes(DecodesInFlight());
}

// Strictly in the fair order. A sequence that does not fit yet is never overtaken, because it might
// then never start.
Sequence* Planner::StartNext(const Sequence* rival) {
  // One start uses up the exception of the pace, so this is asked for each.
  if (!HasRoomToStart() || PaceHoldsBack()) return nullptr;
  while (Sequence* first = FirstWaiting()) {
    if (rival != nullptr && !FairBefore(*first, *rival)) return nullptr;
    if (std::holds_alternative<Draining>(first->state) || KeptFrom(*first)) return nullptr;
    const uint32_t num_blocks = lease_.kv.BlocksFor(first->num_tokens());
    if (lease_.kv.CanHold(num_blocks)) {
      return !first->suspect() && StartIfFits(*first) ? first : nullptr;
    }
    population_.End(*first, {.error = TooLargeForWorker(*first, num_blocks)}, &lease_, now_);
    changed_ = true;
  }
  return nullptr;
}

bool Planner::AStartIsBlocked() const {
  return lease_.LacksBlocksToStart() && lease_.blocked.num_running == population_.running().size();
}

bool Planner::StartIfFits(Sequence& sequence) {
  WorkerLease::BlockedStart& blocked = lease_.blocked;
  const size_t num_running = population_.running().size();
  if (AStartIsBlocked() && !blocked.may_fit && blocked.order == sequence.view.order) return false;
  LiveRequest& live = *sequence.request;
  const Request& request = *live.request;
  const uint32_t max_hit_tokens = sequence.max_cached_tokens();
  const KvProbe probe = lease_.kv.Probe(request.prefix_root, sequence.tokens, max_hit_tokens);
  // Running sequences will grow, so a start leaves one free block for each of them. A sequence that
  // was preempted leaves more, so that it is not preempted again.
  const auto headroom = static_cast<uint32_t>(num_running) * (1 + sequence.num_preemptions);
  if (BlockCountByGroup needed = probe.Needed(headroom); !lease_.kv.Has(needed)) {
    blocked = {.order = sequence.view.order,
               .num_needed_blocks = std::move(needed),
               .num_running = num_running,
               .may_fit = false};
    return false;
  }

  auto residency = std::make_unique<Residency>();
  residency->owner = &sequence;
  residency->slot = lease_.slots.Take();
  residency->blocks = lease_.kv.Take(probe);
  const auto num_hit_blocks = static_cast<uint32_t>(probe.hit.blocks.size());
  residency->published = {.num_blocks = num_hit_blocks, .last = probe.hit.last};
  residency->num_computed = num_hit_blocks * block_size_tokens_;
  residency->planned_computed = residency->num_computed;
  residency->planned_known = sequence.num_tokens();
  residency->min_known = sequence.num_tokens();
  residency->first_prompt_logprob = live.next_prompt_logprob;
  const bool looks_up = max_hit_tokens > 0;
  if (looks_up) {
    state_.num_prefix_query_tokens += sequence.num_tokens();
    state_.num_prefix_hit_tokens += residency->num_computed;
  }
  if (!sequence.num_cached_tokens.has_value()) {
    sequence.num_cached_tokens = residency->num_computed;
    // Other samples share the first one's prompt. What starts again finds its own blocks.
    if (sequence.sample_index == 0 && looks_up) {
      state_.budget.ObserveCached(sequence.num_tokens(), residency->num_computed);
    }
  }
  ++state_.num_starts;
  state_.budget.Started();
  AddStarted(sequence, *residency);
  if (!live.gate_open && residency->num_computed >= live.gate_tokens) population_.OpenGate(live);
  population_.Start(sequence, std::move(residency));
  return true;
}

void Planner::AddStarted(const Sequence& sequence, Residency& residency) {
  LiveRequest& live = *sequence.request;
  num_started_ids_ += sequence.num_tokens() + NumListed(live.request->sampling);
  plan_.started.push_back({.slot = residency.slot,
                           .request = live.request,
                           .sample_index = sequence.sample_index,
                           .known_tokens = sequence.tokens,
                           .num_computed_tokens = residency.num_computed,
                           .blocks = residency.blocks.TakeUntold(),
                           .first_prompt_logprob = residency.first_prompt_logprob});
  if (live.started) return;
  live.started = true;
  population_.Emit(
      StartedEvent{.request = live.request->key, .num_cached_tokens = *sequence.num_cached_tokens});
  const bool no_prompt_logprobs_to_wait_for =
      live.request->sampling.num_prompt_logprobs >= 0 && live.num_prompt_tokens() == 1;
  if (no_prompt_logprobs_to_wait_for) {
    population_.Emit(PromptLogprobsEvent{.request = live.request->key, .entries = {}});
  }
}

}  // namespace lockstep::router
