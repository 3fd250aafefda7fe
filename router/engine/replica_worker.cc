#include "router/engine/replica_worker.h"

#include <algorithm>

#include "common/status.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

bool ReplicaWorker::Begin(uint64_t epoch, const worker::v1::DescribeResponse& description) {
  const bool has_restarted = incarnation_ != 0 && incarnation_ != description.incarnation();
  epoch_ = epoch;
  incarnation_ = description.incarnation();
  bits_ = BitsOf(description);
  limits_ = LimitsOf(description);
  doomed_until_ = 0;
  breaker_.OnAttach();
  return has_restarted;
}

void ReplicaWorker::End(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  epoch_ = 0;
  draining_ = false;
  in_flight_.clear();
  lost_at_ = now;
  lost_reason_ = reason;
  breaker_.OnLoss(loss);
}

CircuitBreaker::Loss ReplicaWorker::LossNow() const {
  return in_flight_.empty() || draining_ ? CircuitBreaker::Loss::kIdle
                                         : CircuitBreaker::Loss::kFailure;
}

absl::StatusOr<StepInFlight> ReplicaWorker::TakeStep(const worker::v1::StepResult& result,
                                                     Instant now) {
  if (result.incarnation() != incarnation_) {
    return Internal("incarnation: expected {:016x}, got {:016x}", incarnation_,
                    result.incarnation());
  }
  if (in_flight_.empty()) {
    return Internal("step_id: got {} with no step in flight", result.step_id());
  }
  StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_result_at_ = now;
  return step;
}

// A sequence that no worker can run fails before the router gives up a worker because of it.
static_assert(CircuitBreaker::kMaxFaults > kMaxRefusals);

absl::Status ReplicaWorker::JudgeRefusal(const StepPlan& plan, const absl::Status& refusal) {
  // After a refusal the worker also refuses the steps that were already in flight. These refusals
  // do not count.
  if (plan.rows.empty() || plan.step_id <= doomed_until_) return absl::OkStatus();
  doomed_until_ = in_flight_.empty() ? plan.step_id : in_flight_.back().plan.step_id;
  return CountFaults(1, refusal);
}

absl::Status ReplicaWorker::JudgeRows(const StepPlan& plan, const StepVerdict& verdict,
                                      Instant now) {
  const uint64_t num_rows = plan.rows.size();
  if (verdict.num_inert_rows == num_rows) return absl::OkStatus();  // nothing ran
  if (verdict.num_failed_rows + verdict.num_inert_rows == num_rows) {
    return CountFaults(verdict.num_failed_requests, verdict.last_failure);
  }
  breaker_.OnResult(now);
  return absl::OkStatus();
}

absl::Status ReplicaWorker::CountFaults(uint32_t num_faults, const absl::Status& last) {
  if (!breaker_.OnFaults(num_faults)) return absl::OkStatus();
  return Unavailable(
      "the worker refused or failed what it was told {} times in a row, the last time with: {}",
      breaker_.num_faults(), Message(last));
}

Instant ReplicaWorker::Deadline(absl::Duration timeout) const {
  if (in_flight_.empty()) return draining_ ? last_result_at_ + timeout : Instant::InfiniteFuture();
  // Steps run one after the other. The oldest step began when the last result was ready.
  return std::max(in_flight_.front().sent_at, last_result_at_) + timeout;
}

absl::Status ReplicaWorker::Overdue(absl::Duration timeout) const {
  const std::string what =
      in_flight_.empty() ? "the drained worker did not end its lease"
                         : fmt::format("step {} had no result", in_flight_.front().plan.step_id);
  return MakeError(absl::StatusCode::kDeadlineExceeded, "{} after {}", what,
                   absl::FormatDuration(timeout));
}

}  // namespace lockstep::router
