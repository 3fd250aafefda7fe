#include "router/core/plan/planner.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

// An extra step costs as much as a step with rows. So released slots wait a while for the next
// rows.
constexpr absl::Duration kReleaseDelay = absl::Milliseconds(10);

// A GPU idles 5 us longer before a step that brings new blocks. With many sequences most steps
// would bring some. So if one sequence must grow, every sequence that decodes gets the blocks for
// its next 8 decodes. This is left out if it takes more than an eighth of the available blocks. (A
// step of 8 or more decode iterations reaches that far anyway.)
constexpr uint32_t kDecodesToGrowFor = 8;
constexpr uint64_t kMinAvailablePerBlock = 8;

}  // namespace

Planner::Planner(SchedulerState& state, Instant now)
    : step_(state, now),
      order_(*state.policy, state.population.tenants(), now),
      starter_(step_, order_),
      max_drafts_(MaxDrafts(state)) {}

std::optional<StepPlan> Planner::Plan() {
  const bool none_in_flight = step_.lease.in_flight.empty();
  if (max_drafts_ > 0) ChooseDrafts();
  do {
    step_.starved = step_.changed = false;
    if (step_.lease.has_suspects && PlanSuspectAlone()) break;
    step_.iterations = ChooseIterations();
    ReserveDecodeBlocks();
    PlanDecodes();
    PlanPrefills();
    if (step_.plan.rows.empty() && none_in_flight && step_.starved) ResolveStarvation();
  } while (step_.plan.rows.empty() && none_in_flight && step_.changed);
  if (!step_.plan.rows.empty()) return step_.Commit();
  step_.iterations = 1;
  if (none_in_flight && (step_.lease.resync || MustTellOfReleased())) return step_.Commit();
  return std::nullopt;
}

bool Planner::PlanSuspectAlone() {
  step_.iterations = 1;
  const auto suspect = [](const Sequence* sequence) { return sequence->suspect(); };
  const bool any_runs = std::ranges::any_of(step_.population.running(), suspect);
  step_.lease.has_suspects = any_runs || std::ranges::any_of(step_.population.waiting(), suspect);
  if (any_runs && PlanRunningSuspect()) return true;
  if (step_.lease.draining || step_.population.running().size() >= step_.max_running) return false;
  Sequence* first = starter_.Next();
  if (first == nullptr || !first->suspect() || !std::holds_alternative<Waiting>(first->state)) {
    return false;
  }
  if (!step_.lease.in_flight.empty()) return true;
  if (!starter_.StartIfFits(*first)) return false;
  const Residency& residency = *first->running();
  step_.AddChunk(*first,
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
  if (std::ranges::any_of(step_.population.running(), is_tried)) return true;
  ReserveDecodeBlocks();
  for (Sequence* sequence : step_.population.running()) {
    if (!sequence->suspect() || !MayRun(*sequence)) continue;
    if (Decodes(*sequence) && !HasBlocks(*sequence)) continue;
    if (!step_.lease.in_flight.empty()) return true;
    const Residency& residency = *sequence->running();
    const uint32_t num_left = residency.planned_known - residency.planned_computed;
    if (step_.AddChunk(*sequence, std::min(PrefillBudget({}), num_left)) > 0) return true;
  }
  return false;
}

// The worker must learn which slots are free even if nothing runs. Most often it learns it with the
// next rows.
bool Planner::MustTellOfReleased() {
  if (!step_.lease.slots.has_released()) return false;
  step_.lease.tell_released_at = std::min(step_.lease.tell_released_at, step_.now + kReleaseDelay);
  return step_.lease.draining || step_.now >= step_.lease.tell_released_at;
}

bool Planner::MayRun(const Sequence& sequence) const {
  const Residency& residency = *sequence.running();
  return residency.min_known < sequence.max_total_tokens &&
         residency.rows_in_flight < sequence.max_rows_in_flight;
}

bool Planner::Decodes(const Sequence& sequence) const {
  const Residency& residency = *sequence.running();
  return residency.planned_known - residency.planned_computed == 1;
}

uint32_t Planner::NumBlocksToGrowTo(const Sequence& sequence, uint32_t num_decodes) const {
  const Residency& residency = *sequence.running();
  const uint32_t num_positions =
      residency.planned_computed +
      std::min(num_decodes, sequence.max_total_tokens - residency.planned_known);
  // This check needs no division and is usually enough. Every sequence runs it in every step.
  if (num_positions <= uint64_t{residency.blocks.num_covered()} * step_.block_size_tokens) return 0;
  return step_.lease.kv.BlocksFor(num_positions);
}

// Call only if its blocks cover a decode without drafts.
uint32_t Planner::NumDrafts(const Sequence& sequence) const {
  const Residency& residency = *sequence.running();
  // The last token is sampled, so it need not be drafted.
  const uint32_t num_drafts =
      std::min(residency.draft_limit, sequence.max_total_tokens - residency.min_known - 1);
  // The token that ends the sequence is not computed.
  const uint64_t num_covered = uint64_t{residency.blocks.num_covered()} * step_.block_size_tokens;
  if (num_covered + 1 >= sequence.max_total_tokens) return num_drafts;
  return static_cast<uint32_t>(
      std::min<uint64_t>(num_drafts, num_covered - residency.planned_known));
}

uint32_t Planner::NumWanted(const Sequence& sequence, bool with_drafts, uint32_t at_least) const {
  return std::max(step_.iterations + (with_drafts ? sequence.running()->draft_limit : 0), at_least);
}

BlockCountByGroup Planner::CountMissing(bool with_drafts, uint32_t at_least) const {
  BlockCountByGroup missing(step_.lease.kv.num_groups(), 0);
  for (const Sequence* sequence : step_.population.running()) {
    if (!MayRun(*sequence) || !Decodes(*sequence)) continue;
    const uint32_t num_blocks =
        NumBlocksToGrowTo(*sequence, NumWanted(*sequence, with_drafts, at_least));
    if (num_blocks > 0) step_.lease.kv.AddMissing(sequence->running()->blocks, num_blocks, missing);
  }
  return missing;
}

void Planner::ChooseDrafts() {
  const std::vector<Sequence*>& running = step_.population.running();
  std::vector<DraftingRow> rows;
  std::vector<Residency*> residencies;  // of the rows
  rows.reserve(running.size());
  residencies.reserve(running.size());
  for (Sequence* sequence : running) {
    Residency& residency = *sequence->running();
    residency.draft_limit = 0;
    residency.probes_drafts = false;
    if (!MayRun(*sequence) || !Decodes(*sequence)) continue;
    const bool may_draft = sequence->request->request->may_draft;
    rows.push_back({.record = &sequence->drafts, .max_drafts = may_draft ? max_drafts_ : 0});
    residencies.push_back(&residency);
  }
  if (step_.state.config.adaptive_drafts) {
    step_.state.drafts.Choose(rows);
  } else {
    for (DraftingRow& row : rows) row.num_drafts = row.max_drafts;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    residencies[i]->draft_limit = rows[i].num_drafts;
    residencies[i]->probes_drafts = rows[i].probes;
    any_drafts_ = any_drafts_ || rows[i].num_drafts > 0;
  }
}

// More than one iteration only if no sequence could use the time in between: all decode, none
// waits.
uint32_t Planner::ChooseIterations() const {
  const uint32_t bound =
      std::min(step_.state.config.max_decode_iterations, step_.lease.limits.max_decode_iterations);
  if (bound <= 1 || any_drafts_ || !step_.population.waiting().empty()) return 1;
  uint32_t longest = 1;
  for (const Sequence* sequence : step_.population.running()) {
    if (!MayRun(*sequence)) continue;
    if (!Decodes(*sequence)) return 1;
    longest = std::max(longest, sequence->max_total_tokens - sequence->running()->min_known);
    // A second iteration would start before the result of the first one is known.
    if (sequence->max_rows_in_flight != kNoRowLimit) return 1;
    // Other rows should not wait for several masks.
    if (sequence->request->request->constraint) return 1;
  }
  return step_.state.budget.DecodeIterations(std::min(bound, longest));
}

void Planner::ReserveDecodeBlocks() {
  // Nearly every sequence has its blocks, so that is asked first.
  const auto has_blocks = [this](const Sequence* sequence) {
    return NumBlocksToGrowTo(*sequence, NumWanted(*sequence, /*with_drafts=*/true)) == 0 ||
           !MayRun(*sequence) || !Decodes(*sequence);
  };
  if (std::ranges::all_of(step_.population.running(), has_blocks)) return;
  bool with_drafts = true;
  BlockCountByGroup missing = CountMissing(with_drafts);
  if (!step_.lease.kv.Has(missing)) {
    with_drafts = false;
    step_.iterations = 1;
    missing = CountMissing(with_drafts);
  }
  if (std::ranges::all_of(missing, [](uint64_t count) { return count == 0; })) return;
  if (!step_.lease.kv.Has(missing)) return ReserveInPolicyOrder();
  const bool has_more =
      step_.lease.kv.Has(CountMissing(with_drafts, kDecodesToGrowFor), kMinAvailablePerBlock);
  const uint32_t at_least = has_more ? kDecodesToGrowFor : 1;
  for (Sequence* sequence : step_.population.running()) {
    if (!MayRun(*sequence) || !Decodes(*sequence)) continue;
    const uint32_t num_blocks =
        NumBlocksToGrowTo(*sequence, NumWanted(*sequence, with_drafts, at_least));
    if (num_blocks > 0) step_.lease.kv.GrowTo(sequence->running()->blocks, num_blocks);
  }
}

void Planner::ReserveInPolicyOrder() {
  std::vector<Sequence*> order = step_.population.running();
  std::ranges::sort(
      order, [this](const Sequence* a, const Sequence* b) { return order_.PolicyBefore(*a, *b); });
  for (size_t i = 0; i < order.size(); ++i) {
    Sequence& sequence = *order[i];
    if (!MayRun(sequence) || !Decodes(sequence)) continue;
    BlockTable& blocks = sequence.running()->blocks;
    const uint32_t num_blocks = NumBlocksToGrowTo(sequence, step_.iterations);
    if (num_blocks == 0) continue;
    BlockCountByGroup missing(step_.lease.kv.num_groups(), 0);
    step_.lease.kv.AddMissing(blocks, num_blocks, missing);
    while (!step_.lease.kv.WillHave(missing) && i + 1 < order.size()) {
      Preempt(*order.back());
      order.pop_back();
    }
    if (step_.lease.kv.Has(missing)) {
      step_.lease.kv.GrowTo(blocks, num_blocks);
    } else {
      step_.starved = true;
    }
  }
}

void Planner::Preempt(Sequence& sequence) {
  step_.starved = step_.changed = true;
  const uint32_t limit = step_.state.config.max_preemptions_per_sequence;
  if (sequence.num_preemptions >= limit) {
    const absl::Status error = ResourceExhausted(
        "preempted {} times for lack of KV blocks: the worker's {} blocks are too few for its load",
        limit, step_.lease.kv.num_blocks());
    return step_.population.End(sequence, {.error = error}, &step_.lease, step_.now);
  }
  ++sequence.num_preemptions;
  ++step_.state.num_preemptions;
  step_.population.Emit(PreemptedEvent{.request = sequence.request->request->key,
                                       .sample_index = sequence.sample_index});
  step_.population.Suspend(sequence, step_.lease, step_.now);
}

void Planner::ResolveStarvation() {
  if (step_.population.running().size() > 1) {
    // Chunks found no block in a group with a window. Such a group always has room for a sequence
    // that is alone.
    LOCKSTEP_CHECK(step_.lease.kv.num_groups() > 1,
                   "{} sequences run, none can, and no block is awaited",
                   step_.population.running().size());
    const auto before = [this](const Sequence* a, const Sequence* b) {
      return order_.PolicyBefore(*a, *b);
    };
    return Preempt(**std::ranges::max_element(step_.population.running(), before));
  }
  Sequence& sequence = *step_.population.running().front();
  const uint32_t num_blocks = NumBlocksToGrowTo(sequence, step_.iterations);
  if (step_.lease.kv.CanHold(num_blocks)) {
    // Some cached blocks equal its own blocks and are parents of blocks that it published later, so
    // they cannot be evicted. After a restart it uses the cached blocks, and its duplicates are
    // gone.
    return Preempt(sequence);
  }
  step_.population.End(sequence, {.error = TooLargeForWorker(step_.lease, sequence, num_blocks)},
                       &step_.lease, step_.now);
  step_.changed = true;
}

void Planner::PlanDecodes() {
  for (Sequence* sequence : step_.population.running()) {
    if (MayRun(*sequence) && Decodes(*sequence) && HasBlocks(*sequence)) {
      step_.AddRow(*sequence, 1, any_drafts_ ? NumDrafts(*sequence) : 0);
    }
  }
}

uint32_t Planner::PrefillBudget(std::span<Sequence* const> chunked) const {
  const auto num_decodes = static_cast<uint32_t>(step_.plan.rows.size());
  const uint32_t budget =
      std::min(step_.lease.limits.max_step_tokens - num_decodes, MaxPrefillTokens(step_.state));
  if (num_decodes == 0) return budget;
  if (step_.state.budget.OwesDecodes()) return 0;
  // If a start must wait until a sequence ends, a longer step does not help it.
  uint64_t num_waiting = 0;
  if (starter_.HasRoom() && !starter_.IsBlocked()) {
    const uint64_t num_whole = step_.population.num_waiting_whole_tokens();
    num_waiting = num_whole + step_.state.budget.UncachedTokens(
                                  step_.population.num_waiting_tokens() - num_whole);
  }
  for (const Sequence* sequence : chunked) {
    const Residency& residency = *sequence->running();
    num_waiting += residency.planned_known - residency.planned_computed;
  }
  return step_.state.budget.PrefillTokensBesideDecodes(budget, num_decodes, num_waiting,
                                                       step_.DecodesInFlight());
}

void Planner::PlanPrefills() {
  std::vector<Sequence*> chunked;
  for (Sequence* sequence : step_.population.running()) {
    // A suspect runs alone (PlanRunningSuspect), also if it lacked blocks there.
    if (Decodes(*sequence) || !MayRun(*sequence) || sequence->suspect()) continue;
    chunked.push_back(sequence);
  }
  uint32_t budget = PrefillBudget(chunked);
  if (budget == 0 && chunked.empty() && step_.population.waiting().empty()) return;
  while (budget > 0) {
    Sequence* const rival = order_.FairFirst(chunked);
    Sequence* sequence = starter_.StartNext(rival);
    if (sequence == nullptr) {
      if (rival == nullptr) {
        const bool some_wait = !step_.population.waiting().empty();
        step_.record.prefill_full = some_wait && starter_.HasRoom() && starter_.PaceHoldsBack();
        return;
      }
      sequence = rival;
      std::erase(chunked, rival);
    }
    const Residency& residency = *sequence->running();
    budget -= step_.AddChunk(
        *sequence, std::min(budget, residency.planned_known - residency.planned_computed));
  }
  step_.record.prefill_full = true;
}

}  // namespace lockstep::router
