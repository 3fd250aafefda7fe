#include "router/core/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "router/core/integrity.h"
#include "router/core/plan/planner.h"
#include "router/core/requests/intake.h"
#include "router/core/requests/scheduler_state.h"
#include "router/core/requests/transfer.h"
#include "router/core/results/retirement.h"

namespace lockstep::router {

class Scheduler::Impl {
 public:
  Impl(const SchedulerConfig& config, std::unique_ptr<SchedulingPolicy> policy)
      : state(config, std::move(policy)) {}

  SchedulerState state;
};

Scheduler::Scheduler(SchedulerConfig config, std::unique_ptr<SchedulingPolicy> policy) {
  const absl::Status valid = config.Validate();
  LOCKSTEP_CHECK(valid.ok(), "{}", Message(valid));
  LOCKSTEP_CHECK(policy != nullptr, "a scheduler needs a policy");
  impl_ = std::make_unique<Impl>(config, std::move(policy));
}

Scheduler::~Scheduler() {
  DetachWorker(absl::CancelledError("the scheduler ends"), Instant::InfinitePast());
}

absl::Status Scheduler::Submit(std::shared_ptr<const Request> request, Instant now) {
  return TakeIn(impl_->state, std::move(request), now);
}

void Scheduler::Cancel(RequestKey request, Instant /*now*/) {
  Population& population = impl_->state.population;
  if (LiveRequest* live = population.Find(request)) {
    population.EndAll(*live, {.reason = FinishReason::kAborted}, impl_->state.lease.get());
    population.ForgetEnded();
  }
}

void Scheduler::StopSequence(RequestKey request, uint32_t sample_index, Instant now) {
  Population& population = impl_->state.population;
  LiveRequest* live = population.Find(request);
  if (live == nullptr || sample_index >= live->samples.size()) return;
  Sequence& sequence = live->samples[sample_index];
  if (!sequence.live()) return;
  population.End(sequence, {.reason = FinishReason::kStop}, impl_->state.lease.get(), now);
  population.ForgetEnded();
}

void Scheduler::ExpireDeadlines(Instant now) {
  Population& population = impl_->state.population;
  for (const auto& [deadline, key] : population.deadlines()) {
    if (deadline > now) break;
    const absl::Status error =
        MakeError(absl::StatusCode::kDeadlineExceeded, "the deadline passed after {} ms",
                  absl::ToInt64Milliseconds(now - population.Find(key)->request->arrival));
    population.EndAll(*population.Find(key), {.error = error}, impl_->state.lease.get());
  }
  population.ForgetEnded();
}

Instant Scheduler::NextDeadline() const {
  const auto& deadlines = impl_->state.population.deadlines();
  return deadlines.empty() ? Instant::InfiniteFuture() : deadlines.begin()->first;
}

Instant Scheduler::NextStepAt() const {
  const WorkerLease* const lease = impl_->state.lease.get();
  return lease == nullptr ? Instant::InfiniteFuture() : lease->tell_released_at;
}

Instant Scheduler::UnservedSince() const {
  Instant since = Instant::InfiniteFuture();
  if (WorkerMayStart(impl_->state)) return since;
  for (const auto& [key, live] : impl_->state.population.requests()) {
    since = std::min(since, UnservedSinceOf(*live, impl_->state));
  }
  return since;
}

uint32_t Scheduler::FailUnserved(Instant since, const absl::Status& reason, Instant /*now*/) {
  LOCKSTEP_CHECK(!reason.ok(), "failing requests needs a reason");
  if (WorkerMayStart(impl_->state)) return 0;
  Population& population = impl_->state.population;
  uint32_t num_failed = 0;
  for (const auto& [key, live] : population.requests()) {
    if (UnservedSinceOf(*live, impl_->state) > since) continue;
    population.EndAll(*live, {.error = reason}, impl_->state.lease.get());
    ++num_failed;
  }
  population.ForgetEnded();
  return num_failed;
}

absl::Status Scheduler::AttachWorker(const WorkerLimits& limits, Instant now) {
  LOCKSTEP_RETURN_IF_ERROR(limits.Validate());
  DetachWorker(absl::AbortedError("another worker replaced it"), now);
  SchedulerState& state = impl_->state;
  state.lease = std::make_unique<WorkerLease>(limits, &state.prefix_changes);
  // What was measured on another worker says nothing about this one.
  state.prefill_speed = {};
  state.drafts = DraftPolicy(state.config.max_time_per_token);
  state.budget = StepBudget(state.config.target_step_time, state.config.max_time_per_token);
  if (state.unserved_since == Instant::InfinitePast())
    state.unserved_since = Instant::InfiniteFuture();
  for (const auto& [key, live] : state.population.requests()) FitToWorker(state, *live);
  state.population.ForgetEnded();
  return absl::OkStatus();
}

void Scheduler::DetachWorker(const absl::Status& reason, Instant now) {
  SchedulerState& state = impl_->state;
  if (state.lease == nullptr) return;
  state.population.LeaveWorker(*state.lease, reason, now);
  state.lease.reset();
  state.unserved_since = std::min(state.unserved_since, now);
  state.population.ForgetEnded();
}

bool Scheduler::has_worker() const { return impl_->state.lease != nullptr; }

void Scheduler::DrainWorker(Instant now) {
  SchedulerState& state = impl_->state;
  if (state.lease == nullptr) return;
  state.lease->draining = true;
  state.unserved_since = std::min(state.unserved_since, now);
}

uint32_t Scheduler::FailWithOutput(const absl::Status& reason, Instant /*now*/) {
  LOCKSTEP_CHECK(!reason.ok(), "failing requests needs a reason");
  Population& population = impl_->state.population;
  uint32_t num_failed = 0;
  for (const auto& [key, live] : population.requests()) {
    if (!live->HasOutput()) continue;
    population.EndAll(*live, {.error = reason}, impl_->state.lease.get());
    ++num_failed;
  }
  population.ForgetEnded();
  return num_failed;
}

std::vector<StrandedRequest> Scheduler::Stranded() const { return FindStranded(impl_->state); }

SuspendedRequest Scheduler::Release(RequestKey request) {
  return router::Release(impl_->state, request);
}

void Scheduler::Adopt(SuspendedRequest suspended) {
  router::Adopt(impl_->state, std::move(suspended));
}

PrefixChanges& Scheduler::prefix_changes() { return impl_->state.prefix_changes; }

std::optional<StepPlan> Scheduler::NextStep(Instant now) {
  SchedulerState& state = impl_->state;
  if (state.lease == nullptr || state.lease->contradicted) return std::nullopt;
  const uint32_t max_in_flight =
      std::min(state.config.max_steps_in_flight, state.lease->limits.max_steps_in_flight);
  if (state.lease->in_flight.size() >= max_in_flight) return std::nullopt;
  std::optional<StepPlan> plan = Planner(state, now).Plan();
  state.population.ForgetEnded();
  return plan;
}

absl::Status Scheduler::Apply(StepOutcome outcome, Instant now) {
  SchedulerState& state = impl_->state;
  if (state.lease == nullptr) return Internal("step {}: a result, but no worker", outcome.step_id);
  const absl::Status status = Retirement(state, now).Apply(std::move(outcome));
  state.population.ForgetEnded();
  return status;
}

uint32_t Scheduler::CountFailedRequests(const StepOutcome& outcome) const {
  const WorkerLease* const lease = impl_->state.lease.get();
  if (lease == nullptr || lease->in_flight.empty()) return 0;
  const std::vector<RowRecord>& rows = lease->in_flight.front().rows;
  std::vector<const LiveRequest*> requests;
  for (const RowOutcome& failed : outcome.rows) {
    if (failed.error.ok()) continue;
    const auto row = std::ranges::find(rows, failed.slot, &RowRecord::slot);
    if (row == rows.end() || row->residency->owner == nullptr) continue;
    requests.push_back(row->residency->owner->request);
  }
  std::ranges::sort(requests);
  const auto repeated = std::ranges::unique(requests);
  return static_cast<uint32_t>(repeated.begin() - requests.begin());
}

std::vector<SchedulerEvent> Scheduler::TakeEvents() { return impl_->state.population.TakeEvents(); }

SchedulerStats Scheduler::Stats() const {
  const SchedulerState& state = impl_->state;
  const Population& population = state.population;
  SchedulerStats stats{
      .waiting_requests = population.num_waiting_requests(),
      .waiting_sequences = population.num_waiting_sequences(),
      .running_sequences = static_cast<uint32_t>(population.running().size()),
      .waiting_tokens = population.num_waiting_tokens(),
      .prefill_tokens = population.num_prefill_tokens(),
      .preemptions = state.num_preemptions,
      .prefix_query_tokens = state.num_prefix_query_tokens,
      .prefix_hit_tokens = state.num_prefix_hit_tokens,
      .rollbacks = state.num_rollbacks,
      .refused_steps = state.num_refused_steps,
      .wasted_rows = state.num_wasted_rows,
      .refused_for_deadline = state.num_refused_for_deadline,
      .refused_for_first_token = state.num_refused_for_first_token,
      .planned_prefill_tokens = state.num_planned_prefill_tokens,
      .planned_decode_tokens = state.num_planned_decode_tokens,
      .rounds_by_drafts = state.rounds_by_drafts,
      .accepted_by_place = state.accepted_by_place,
  };
  for (uint32_t drafts = 1; drafts <= kMaxDrafts; ++drafts) {
    stats.drafted_tokens += drafts * state.rounds_by_drafts[drafts];
    stats.accepted_drafts += state.accepted_by_place[drafts - 1];
  }
  if (state.lease != nullptr) {
    const BlockCounts blocks = state.lease->kv.Counts();
    stats.steps_in_flight = static_cast<uint32_t>(state.lease->in_flight.size());
    stats.free_blocks = blocks.free;
    stats.used_blocks = blocks.used;
    stats.cached_blocks = blocks.cached;
    stats.fenced_blocks = blocks.fenced;
    for (uint32_t group = 1; group < state.lease->kv.num_groups(); ++group) {
      stats.further_groups.push_back(state.lease->kv.Counts(group));
    }
    stats.prefix_index_nodes = state.lease->kv.num_index_nodes();
  }
  return stats;
}

bool Scheduler::Idle() const {
  const SchedulerState& state = impl_->state;
  return state.population.requests().empty() &&
         (state.lease == nullptr || state.lease->in_flight.empty());
}

absl::Status Scheduler::CheckIntegrity() const { return CheckSchedulerIntegrity(impl_->state); }

}  // namespace lockstep::router
