#include "router/core/plan/starter.h"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

constexpr size_t kSlotsPerKept = 16;
constexpr uint64_t kStartsPerTurn = 16;

// Token ids in the lists of a request. Every start sends them to the worker.
// A constraint counts by its bytes, as ids of four bytes.
size_t NumListed(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  const size_t num_bytes = request.constraint ? request.constraint->constraint.text.size() : 0;
  return sampling.logit_bias.size() + sampling.allowed_token_ids.size() +
         sampling.stop_token_ids.size() + num_bytes / sizeof(TokenId);
}

}  // namespace

Sequence* Starter::Next() const {
  std::vector<Sequence*> startable;
  startable.reserve(step_.population.waiting().size());
  for (Sequence* sequence : step_.population.waiting()) {
    if (sequence->request->MayStart(*sequence)) startable.push_back(sequence);
  }
  if (startable.empty() || step_.state.num_starts % kStartsPerTurn != kStartsPerTurn - 1) {
    return order_.FairFirst(startable);
  }
  Sequence* const first = order_.FirstByPolicy(startable);
  return KeptFrom(*first) ? order_.FairFirst(startable) : first;
}

bool Starter::KeptFrom(const Sequence& sequence) const {
  const size_t num_kept = step_.max_running / kSlotsPerKept;
  return step_.population.tenants().several() &&
         step_.population.running().size() + num_kept >= step_.max_running &&
         sequence.request->share->num_running >= num_kept;
}

bool Starter::HasRoom() const {
  return !step_.lease.draining && !step_.starved &&
         step_.population.running().size() < step_.max_running &&
         num_started_ids_ < step_.state.config.max_started_ids_per_step;
}

bool Starter::PaceHoldsBack() const {
  return step_.plan.num_decode_tokens > 0 &&
         !step_.state.budget.MayStartBesideDecodes(step_.DecodesInFlight());
}

// Strictly in the fair order. A sequence that does not fit yet is never overtaken, because it might
// then never start.
Sequence* Starter::StartNext(const Sequence* rival) {
  // A start uses up the pace's exception, so this is asked before each start.
  if (!HasRoom() || PaceHoldsBack()) return nullptr;
  while (Sequence* first = Next()) {
    if (rival != nullptr && !order_.FairBefore(*first, *rival)) return nullptr;
    if (std::holds_alternative<Draining>(first->state) || KeptFrom(*first)) return nullptr;
    const uint32_t num_blocks = step_.lease.kv.BlocksFor(first->num_tokens());
    if (step_.lease.kv.CanHold(num_blocks)) {
      return !first->suspect() && StartIfFits(*first) ? first : nullptr;
    }
    step_.population.End(*first, {.error = TooLargeForWorker(step_.lease, *first, num_blocks)},
                         &step_.lease, step_.now);
    step_.changed = true;
  }
  return nullptr;
}

bool Starter::IsBlocked() const {
  return step_.lease.LacksBlocksToStart() &&
         step_.lease.blocked.num_running == step_.population.running().size();
}

bool Starter::StartIfFits(Sequence& sequence) {
  WorkerLease::BlockedStart& blocked = step_.lease.blocked;
  const size_t num_running = step_.population.running().size();
  if (IsBlocked() && !blocked.may_fit && blocked.order == sequence.view.order) return false;
  LiveRequest& live = *sequence.request;
  const Request& request = *live.request;
  const uint32_t max_hit_tokens = sequence.max_cached_tokens();
  const KvProbe probe = step_.lease.kv.Probe(request.prefix_root, sequence.tokens, max_hit_tokens);
  // Running sequences will grow, so a start leaves one free block for each of them. A sequence that
  // was preempted leaves more, so that it is not preempted again.
  const auto headroom = static_cast<uint32_t>(num_running) * (1 + sequence.num_preemptions);
  if (BlockCountByGroup needed = probe.Needed(headroom); !step_.lease.kv.Has(needed)) {
    blocked = {.order = sequence.view.order,
               .num_needed_blocks = std::move(needed),
               .num_running = num_running,
               .may_fit = false};
    return false;
  }

  auto residency = std::make_unique<Residency>();
  residency->owner = &sequence;
  residency->slot = step_.lease.slots.Take();
  residency->blocks = step_.lease.kv.Take(probe);
  const auto num_hit_blocks = static_cast<uint32_t>(probe.hit.blocks.size());
  residency->published = {.num_blocks = num_hit_blocks, .last = probe.hit.last};
  residency->num_computed = num_hit_blocks * step_.block_size_tokens;
  residency->planned_computed = residency->num_computed;
  residency->planned_known = sequence.num_tokens();
  residency->min_known = sequence.num_tokens();
  residency->first_prompt_logprob = live.next_prompt_logprob;
  const bool looks_up = max_hit_tokens > 0;
  if (looks_up) {
    step_.state.num_prefix_query_tokens += sequence.num_tokens();
    step_.state.num_prefix_hit_tokens += residency->num_computed;
  }
  if (!sequence.num_cached_tokens.has_value()) {
    sequence.num_cached_tokens = residency->num_computed;
    // Other samples share the first one's prompt. What starts again finds its own blocks.
    if (sequence.sample_index == 0 && looks_up) {
      step_.state.budget.ObserveCached(sequence.num_tokens(), residency->num_computed);
    }
  }
  ++step_.state.num_starts;
  step_.state.budget.Started();
  AddStarted(sequence, *residency);
  if (!live.gate_open && residency->num_computed >= live.gate_tokens) {
    step_.population.OpenGate(live);
  }
  step_.population.Start(sequence, std::move(residency));
  return true;
}

void Starter::AddStarted(const Sequence& sequence, Residency& residency) {
  LiveRequest& live = *sequence.request;
  num_started_ids_ += sequence.num_tokens() + NumListed(*live.request);
  step_.plan.started.push_back({.slot = residency.slot,
                                .request = live.request,
                                .sample_index = sequence.sample_index,
                                .known_tokens = sequence.tokens,
                                .num_computed_tokens = residency.num_computed,
                                .blocks = residency.blocks.TakeUntold(),
                                .first_prompt_logprob = residency.first_prompt_logprob});
  if (live.started) return;
  live.started = true;
  step_.population.Emit(
      StartedEvent{.request = live.request->key, .num_cached_tokens = *sequence.num_cached_tokens});
  const bool no_prompt_logprobs_to_wait_for =
      live.request->sampling.num_prompt_logprobs >= 0 && live.num_prompt_tokens() == 1;
  if (no_prompt_logprobs_to_wait_for) {
    step_.population.Emit(PromptLogprobsEvent{.request = live.request->key, .entries = {}});
  }
}

}  // namespace lockstep::router
