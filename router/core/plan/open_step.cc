#include "router/core/plan/open_step.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

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

// Charges each position of a prompt once. Positions that were cached, or that a restart computes
// again, are free.
void Charge(Sequence& sequence, uint32_t start, uint32_t num_tokens) {
  const LiveRequest& live = *sequence.request;
  const uint32_t end = std::min(start + num_tokens, live.num_prompt_tokens());
  if (end <= sequence.num_charged) return;
  live.share->Charge(end - std::max(start, sequence.num_charged), TenantShare::kPromptWeight,
                     live.request->tenant_weight);
  sequence.num_charged = end;
}

}  // namespace

OpenStep::OpenStep(SchedulerState& scheduler_state, Instant step_time)
    : state(scheduler_state),
      population(state.population),
      lease(*state.lease),
      now(step_time),
      max_running(MaxRunning(state)),
      block_size_tokens(lease.limits.block_size_tokens()) {
  plan.rows.reserve(population.running().size());
  record.rows.reserve(population.running().size());
}

uint32_t OpenStep::AddChunk(Sequence& sequence, uint32_t max_tokens) {
  const Residency& residency = *sequence.running();
  BlockTable& blocks = sequence.running()->blocks;
  const uint64_t end = uint64_t{residency.planned_computed} + max_tokens;
  if (end > uint64_t{blocks.num_covered()} * block_size_tokens) {
    lease.kv.GrowTo(blocks, std::min(lease.kv.BlocksFor(end), lease.kv.MostCovered(blocks)));
  }
  const uint64_t covered = std::min(end, uint64_t{blocks.num_covered()} * block_size_tokens);
  if (covered <= residency.planned_computed) {
    starved = true;
    return 0;
  }
  const auto num_tokens = static_cast<uint32_t>(covered - residency.planned_computed);
  AddRow(sequence, num_tokens);
  return num_tokens;
}

void OpenStep::AddRow(Sequence& sequence, uint32_t num_tokens, uint32_t num_drafts) {
  Residency& residency = *sequence.running();
  const bool samples = residency.planned_computed + num_tokens == residency.planned_known;
  const uint32_t max_kept =
      samples ? std::min(iterations + num_drafts, sequence.max_total_tokens - residency.min_known)
              : 0;
  const uint32_t min_kept = sequence.rows_may_wait ? 0 : max_kept - num_drafts;

  RunRow& row = plan.rows.emplace_back();
  row.slot = residency.slot;
  row.num_tokens = num_tokens;
  row.max_drafts = num_drafts;
  if (residency.blocks.has_untold()) row.new_blocks = residency.blocks.TakeUntold();
  if (num_tokens == 1 && samples) {
    plan.num_decode_tokens += max_kept - num_drafts;
  } else {
    plan.num_prefill_tokens += num_tokens;
  }
  Charge(sequence, residency.planned_computed, num_tokens);
  record.rows.push_back(
      {.residency = &residency,
       .slot = residency.slot,
       .num_tokens = num_tokens,
       .min_kept = min_kept,
       .max_kept = max_kept,
       .max_drafts = num_drafts,
       .probes_drafts = num_drafts == residency.draft_limit && residency.probes_drafts});
  CountRow(sequence, residency, record.rows.back());
}

StepPlan OpenStep::Commit() {
  plan.step_id = lease.next_step_id++;
  plan.resync = std::exchange(lease.resync, false);
  plan.released = lease.slots.TakeReleased();
  lease.tell_released_at = Instant::InfiniteFuture();
  plan.decode_iterations = iterations;
  plan.repeat_rows = !plan.resync && plan.started.empty() && !plan.rows.empty() &&
                     std::ranges::equal(plan.rows, lease.last_rows,
                                        [](const RunRow& row, const WorkerLease::SentRow& last) {
                                          return row.slot == last.slot && row.num_tokens == 1 &&
                                                 row.max_drafts == last.max_drafts;
                                        });
  if (!plan.repeat_rows) {
    lease.last_rows.clear();
    for (const RunRow& row : plan.rows) lease.last_rows.push_back({row.slot, row.max_drafts});
  }
  record.step_id = plan.step_id;
  record.decode_iterations = plan.decode_iterations;
  record.num_prefill_tokens = plan.num_prefill_tokens;
  record.num_decode_tokens = plan.num_decode_tokens;
  state.budget.Planned(plan.num_prefill_tokens, plan.num_decode_tokens);
  state.num_planned_prefill_tokens += plan.num_prefill_tokens;
  state.num_planned_decode_tokens += plan.num_decode_tokens;
  lease.in_flight.push_back(std::move(record));
  return std::move(plan);
}

StepBudget::InFlight OpenStep::DecodesInFlight() const {
  StepBudget::InFlight in_flight;
  for (const StepRecord& step : lease.in_flight) {
    if (step.num_decode_tokens == 0) continue;
    in_flight.num_iterations += step.decode_iterations;
    in_flight.num_prefill_tokens += step.num_prefill_tokens;
  }
  return in_flight;
}

absl::Status TooLargeForWorker(const WorkerLease& lease, const Sequence& sequence,
                               uint32_t num_blocks) {
  return InvalidArgument(
      "after {} tokens the sequence needs {} KV blocks, the worker has {} of {} tokens",
      sequence.num_tokens(), num_blocks, lease.kv.num_blocks(), lease.limits.block_size_tokens());
}

}  // namespace lockstep::router
