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

// Counts a row of the sequence as in flight.
void CountRow(const Sequence& sequence, Residency& residency, const RowRecord& row) {
  ++residency.rows_in_flight;
  if (row.max_kept == 0) {
    residency.planned_computed += row.num_tokens;
    return;
  }
  residency.min_known += row.min_kept;
  residency.max_kept_in_flight += row.max_kept;
  residency.planned_known =
      std::min(residency.planned_known + row.max_kept, sequence.max_total_tokens);
  residency.planned_computed = residency.planned_known - 1;
}

}  // namespace

Planner::Planner(SchedulerState& state, Instant now)
    : state_(state),
      population_(state.population),
      lease_(*state.lease),
      now_(now),
      max_running_(MaxRunning(state)),
      block_size_tokens_(lease_.limits.block_size_tokens()),
      max_drafts_(MaxDrafts(state)) {}

std::optional<StepPlan> Planner::Plan() {
  plan_.rows.reserve(population_.running().size());
  record_.rows.reserve(population_.running().size());
  const bool none_in_flight = lease_.in_flight.empty();
  do {
    starved_ = changed_ = false;
    if (lease_.has_suspects && PlanSuspectAlone()) break;
    iterations_ = ChooseIterations();
    ReserveDecodeBlocks();
    PlanDecodes();
    PlanPrefills();
    if (plan_.rows.empty() && none_in_flight && starved_) ResolveStarvation();
  } while (plan_.rows.empty() && none_in_flight && changed_);
  if (!plan_.rows.empty()) return Commit();
  iterations_ = 1;
  if (none_in_flight && (lease_.resync || MustTellOfReleased())) return Commit();
  return std::nullopt;
}

// The worker must learn which slots are free even if nothing runs. Most often it learns it with the
// next rows.
bool Planner::MustTellOfReleased() {
  if (!lease_.slots.has_released()) return false;
  lease_.tell_released_at = std::min(lease_.tell_released_at, now_ + kReleaseDelay);
  return lease_.draining || now_ >= lease_.tell_released_at;
}

bool Planner::Before(const Sequence& a, const Sequence& b) const {
  return state_.policy->Before(a.view, b.view, now_);
}

bool Planner::FairBefore(const Sequence& a, const Sequence& b) const {
  const double a_served = a.request->share->served;
  const double b_served = b.request->share->served;
  if (a.view.priority == b.view.priority && a_served != b_served) return a_served < b_served;
  return Before(a, b);
}

Sequence* Planner::FirstInPolicyOrder(std::span<Sequence* const> sequences) const {
  return *std::ranges::min_element(
      sequences, [this](const Sequence* a, const Sequence* b) { return Before(*a, *b); });
}

Sequence* Planner::FairFirst(std::span<Sequence* const> sequences) const {
  if (sequences.empty()) return nullptr;
  Sequence* first = FirstInPolicyOrder(sequences);
  if (population_.tenants().num_active() <= 1) return first;
  for (Sequence* sequence : sequences) {
    if (sequence->view.priority == first->view.priority && FairBefore(*sequence, *first)) {
      first = sequence;
    }
  }
  return first;
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
  if (num_positions <= uint64_t{residency.blocks.num_covered()} * block_size_tokens_) return 0;
  return lease_.kv.BlocksFor(num_positions);
}

// Call only if its blocks cover a decode without drafts.
uint32_t Planner::NumDrafts(const Sequence& sequence) const {
  const Residency& residency = *sequence.running();
  // The last token is sampled, so it need not be drafted.
  const uint32_t num_drafts =
      std::min(max_drafts_, sequence.max_total_tokens - residency.min_known - 1);
  // The token that ends the sequence is not computed.
  const uint64_t num_covered = uint64_t{residency.blocks.num_covered()} * block_size_tokens_;
  if (num_covered + 1 >= sequence.max_total_tokens) return num_drafts;
  return static_cast<uint32_t>(
      std::min<uint64_t>(num_drafts, num_covered - residency.planned_known));
}

BlockCountByGroup Planner::CountMissing(uint32_t num_decodes) const {
  BlockCountByGroup missing(lease_.kv.num_groups(), 0);
  for (const Sequence* sequence : population_.running()) {
    if (!MayRun(*sequence) || !Decodes(*sequence)) continue;
    const uint32_t num_blocks = NumBlocksToGrowTo(*sequence, num_decodes);
    if (num_blocks > 0) lease_.kv.AddMissing(sequence->running()->blocks, num_blocks, missing);
  }
  return missing;
}

// More than one iteration only if no sequence could use the time in between: all decode, none
// waits.
uint32_t Planner::ChooseIterations() const {
  const uint32_t bound =
      std::min(state_.config.max_decode_iterations, lease_.limits.max_decode_iterations);
  if (bound <= 1 || max_drafts_ > 0 || !population_.waiting().empty()) return 1;
  uint32_t longest = 1;
  for (const Sequence* sequence : population_.running()) {
    if (!MayRun(*sequence)) continue;
    if (!Decodes(*sequence)) return 1;
    longest = std::max(longest, sequence->max_total_tokens - sequence->running()->min_known);
    // A second iteration would start before the result of the first one is known.
    if (sequence->max_rows_in_flight != kNoRowLimit) return 1;
  }
  return state_.budget.DecodeIterations(std::min(bound, longest));
}

void Planner::ReserveDecodeBlocks() {
  uint32_t num_wanted = iterations_ + max_drafts_;
  // Nearly every sequence has its blocks, so that is asked first.
  const auto has_blocks = [this, num_wanted](const Sequence* sequence) {
    return NumBlocksToGrowTo(*sequence, num_wanted) == 0 || !MayRun(*sequence) ||
           !Decodes(*sequence);
  };
  if (std::ranges::all_of(population_.running(), has_blocks)) return;
  BlockCountByGroup missing = CountMissing(num_wanted);
  if (!lease_.kv.Has(missing) && num_wanted > 1) {
    num_wanted = iterations_ = 1;
    missing = CountMissing(num_wanted);
  }
  if (std::ranges::all_of(missing, [](uint64_t count) { return count == 0; })) return;
  if (!lease_.kv.Has(missing)) return ReserveInPolicyOrder();
  uint32_t num_decodes = std::max(num_wanted, kDecodesToGrowFor);
  if (!lease_.kv.Has(CountMissing(num_decodes), kMinAvailablePerBlock)) num_decodes = num_wanted;
  for (Sequence* sequence : population_.running()) {
    if (!MayRun(*sequence) || !Decodes(*sequence)) continue;
    const uint32_t num_blocks = NumBlocksToGrowTo(*sequence, num_decodes);
    if (num_blocks > 0) lease_.kv.GrowTo(sequence->running()->blocks, num_blocks);
  }
}

void Planner::ReserveInPolicyOrder() {
  std::vector<Sequence*> order = population_.running();
  std::ranges::sort(order, [this](const Sequence* a, const Sequence* b) { return Before(*a, *b); });
  for (size_t i = 0; i < order.size(); ++i) {
    Sequence& sequence = *order[i];
    if (!MayRun(sequence) || !Decodes(sequence)) continue;
    BlockTable& blocks = sequence.running()->blocks;
    const uint32_t num_blocks = NumBlocksToGrowTo(sequence, iterations_);
    if (num_blocks == 0) continue;
    BlockCountByGroup missing(lease_.kv.num_groups(), 0);
    lease_.kv.AddMissing(blocks, num_blocks, missing);
    while (!lease_.kv.WillHave(missing) && i + 1 < order.size()) {
      Preempt(*order.back());
      order.pop_back();
    }
    if (lease_.kv.Has(missing)) {
      lease_.kv.GrowTo(blocks, num_blocks);
    } else {
      starved_ = true;
    }
  }
}

void Planner::Preempt(Sequence& sequence) {
  starved_ = changed_ = true;
  const uint32_t limit = state_.config.max_preemptions_per_sequence;
  if (sequence.num_preemptions >= limit) {
    const absl::Status error = ResourceExhausted(
        "preempted {} times for lack of KV blocks: the worker's {} blocks are too few for its load",
        limit, lease_.kv.num_blocks());
    return population_.End(sequence, {.error = error}, &lease_, now_);
  }
  ++sequence.num_preemptions;
  ++state_.num_preemptions;
  population_.Emit(PreemptedEvent{.request = sequence.request->request->key,
                                  .sample_index = sequence.sample_index});
  population_.Suspend(sequence, lease_, now_);
}

void Planner::ResolveStarvation() {
  if (population_.running().size() > 1) {
    // Chunks found no block in a group with a window. Such a group always has room for a sequence
    // that is alone.
    LOCKSTEP_CHECK(lease_.kv.num_groups() > 1,
                   "{} sequences run, none can, and no block is awaited",
                   population_.running().size());
    const auto before = [this](const Sequence* a, const Sequence* b) { return Before(*a, *b); };
    return Preempt(**std::ranges::max_element(population_.running(), before));
  }
  Sequence& sequence = *population_.running().front();
  const uint32_t num_blocks = NumBlocksToGrowTo(sequence, iterations_);
  if (lease_.kv.CanHold(num_blocks)) {
    // Some cached blocks equal its own blocks and are parents of blocks that it published later, so
    // they cannot be evicted. After a restart it uses the cached blocks, and its duplicates are
    // gone.
    return Preempt(sequence);
  }
  population_.End(sequence, {.error = TooLargeForWorker(sequence, num_blocks)}, &lease_, now_);
  changed_ = true;
}

// INVALID_ARGUMENT, because another try would end in the same way.
absl::Status Planner::TooLargeForWorker(const Sequence& sequence, uint32_t num_blocks) const {
  return InvalidArgument(
      "after {} tokens the sequence needs {} KV blocks, the worker has {} of {} tokens",
      sequence.num_tokens(), num_blocks, lease_.kv.num_blocks(), block_size_tokens_);
}

void Planner::PlanDecodes() {
  for (Sequence* sequence : population_.running()) {
    if (MayRun(*sequence) && Decodes(*sequence) && HasBlocks(*sequence)) {
      AddRow(*sequence, 1, max_drafts_ == 0 ? 0 : NumDrafts(*sequence));
    }
  }
}

uint32_t Planner::PrefillBudget(std::span<Sequence* const> chunked) const {
  const auto num_decodes = static_cast<uint32_t>(plan_.rows.size());
  const uint32_t budget =
      std::min(lease_.limits.max_step_tokens - num_decodes, MaxPrefillTokens(state_));
  if (num_decodes == 0) return budget;
  if (state_.budget.OwesDecodes()) return 0;
  // What waits until a sequence ends starts no sooner after a longer step.
  uint64_t num_waiting = 0;
  if (HasRoomToStart() && !AStartIsBlocked()) {
    const uint64_t num_whole = population_.num_waiting_whole_tokens();
    num_waiting =
        num_whole + state_.budget.UncachedTokens(population_.num_waiting_tokens() - num_whole);
  }
  for (const Sequence* sequence : chunked) {
    const Residency& residency = *sequence->running();
    num_waiting += residency.planned_known - residency.planned_computed;
  }
  return state_.budget.PrefillTokensBesideDecodes(budget, num_decodes, num_waiting,
                                                  DecodesInFlight());
}

StepBudget::InFlight Planner::DecodesInFlight() const {
  StepBudget::InFlight in_flight;
  for (const StepRecord& step : lease_.in_flight) {
    if (step.num_decode_tokens == 0) continue;
    in_flight.num_iterations += step.decode_iterations;
    in_flight.num_prefill_tokens += step.num_prefill_tokens;
  }
  return in_flight;
}

void Planner::PlanPrefills() {
  std::vector<Sequence*> chunked;
  for (Sequence* sequence : population_.running()) {
    // A suspect runs alone (PlanRunningSuspect), also if it lacked blocks there.
    if (Decodes(*sequence) || !MayRun(*sequence) || sequence->suspect()) continue;
    chunked.push_back(sequence);
  }
  uint32_t budget = PrefillBudget(chunked);
  if (budget == 0 && chunked.empty() && population_.waiting().empty()) return;
  while (budget > 0) {
    Sequence* const rival = FairFirst(chunked);
    Sequence* sequence = StartNext(rival);
    if (sequence == nullptr) {
      if (rival == nullptr) {
        const bool some_wait = !population_.waiting().empty();
        record_.prefill_full = some_wait && HasRoomToStart() && PaceHoldsBack();
        return;
      }
      sequence = rival;
      std::erase(chunked, rival);
    }
    const Residency& residency = *sequence->running();
    budget -=
        AddChunk(*sequence, std::min(budget, residency.planned_known - residency.planned_computed));
  }
  record_.prefill_full = true;
}

uint32_t Planner::AddChunk(Sequence& sequence, uint32_t max_tokens) {
  const Residency& residency = *sequence.running();
  BlockTable& blocks = sequence.running()->blocks;
  const uint64_t end = uint64_t{residency.planned_computed} + max_tokens;
  if (end > uint64_t{blocks.num_covered()} * block_size_tokens_) {
    lease_.kv.GrowTo(blocks, std::min(lease_.kv.BlocksFor(end), lease_.kv.MostCovered(blocks)));
  }
  const uint64_t covered = std::min(end, uint64_t{blocks.num_covered()} * block_size_tokens_);
  if (covered <= residency.planned_computed) {
    starved_ = true;
    return 0;
  }
  const auto num_tokens = static_cast<uint32_t>(covered - residency.planned_computed);
  AddRow(sequence, num_tokens);
  return num_tokens;
}

void Planner::AddRow(Sequence& sequence, uint32_t num_tokens, uint32_t num_drafts) {
  Residency& residency = *sequence.running();
  const bool samples = residency.planned_computed + num_tokens == residency.planned_known;
  const uint32_t max_kept =
      samples ? std::min(iterations_ + num_drafts, sequence.max_total_tokens - residency.min_known)
              : 0;
  const uint32_t min_kept = sequence.rows_may_wait ? 0 : max_kept - num_drafts;

  RunRow& row = plan_.rows.emplace_back();
  row.slot = residency.slot;
  row.num_tokens = num_tokens;
  row.max_drafts = num_drafts;
  if (residency.blocks.has_untold()) row.new_blocks = residency.blocks.TakeUntold();
  if (num_tokens == 1 && samples) {
    plan_.num_decode_tokens += max_kept - num_drafts;
  } else {
    plan_.num_prefill_tokens += num_tokens;
  }
  Charge(sequence, residency.planned_computed, num_tokens);
  record_.rows.push_back({.residency = &residency,
                          .slot = residency.slot,
                          .num_tokens = num_tokens,
                          .min_kept = min_kept,
                          .max_kept = max_kept});
  CountRow(sequence, residency, record_.rows.back());
}

// Charges each position of a prompt once. Positions that were cached, or that a restart computes
// again, are free.
void Planner::Charge(Sequence& sequence, uint32_t start, uint32_t num_tokens) {
  const LiveRequest& live = *sequence.request;
  const uint32_t end = std::min(start + num_tokens, live.num_prompt_tokens());
  if (end <= sequence.num_charged) return;
  live.share->Charge(end - std::max(start, sequence.num_charged), TenantShare::kPromptWeight,
                     live.request->tenant_weight);
  sequence.num_charged = end;
}

StepPlan Planner::Commit() {
  plan_.step_id = lease_.next_step_id++;
  plan_.resync = std::exchange(lease_.resync, false);
  plan_.released = lease_.slots.TakeReleased();
  lease_.tell_released_at = Instant::InfiniteFuture();
  plan_.decode_iterations = iterations_;
  plan_.repeat_rows = !plan_.resync && plan_.started.empty() && !plan_.rows.empty() &&
                      std::ranges::equal(plan_.rows, lease_.last_rows,
                                         [](const RunRow& row, const WorkerLease::SentRow& last) {
                                           return row.slot == last.slot && row.num_tokens == 1 &&
                                                  row.max_drafts == last.max_drafts;
                                         });
  if (!plan_.repeat_rows) {
    lease_.last_rows.clear();
    for (const RunRow& row : plan_.rows) lease_.last_rows.push_back({row.slot, row.max_drafts});
  }
  record_.step_id = plan_.step_id;
  record_.decode_iterations = plan_.decode_iterations;
  record_.num_prefill_tokens = plan_.num_prefill_tokens;
  record_.num_decode_tokens = plan_.num_decode_tokens;
  state_.budget.Planned(plan_.num_prefill_tokens, plan_.num_decode_tokens);
  state_.num_planned_prefill_tokens += plan_.num_prefill_tokens;
  state_.num_planned_decode_tokens += plan_.num_decode_tokens;
  lease_.in_flight.push_back(std::move(record_));
  return std::move(plan_);
}

}  // namespace lockstep::router
