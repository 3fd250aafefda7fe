#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "common/instant.h"
#include "router/core/messages/step.h"
#include "router/workers/circuit_breaker.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// A step as it was sent. The codec checks the worker's answer against it. The scheduler has a
// record of its own (StepRecord in router/core/requests/worker_lease.h).
struct StepInFlight {
  StepPlan plan;
  Instant sent_at;
  absl::Duration router_time;  // that the loop has spent on the step so far
};

// Whether a worker ran a step as it should.
struct StepVerdict {
  uint32_t num_failed_rows = 0;
  uint32_t num_failed_requests = 0;  // with failed rows; at least 1 if there are failed rows
  absl::Status last_failure = {};    // of the failed rows
  uint32_t num_inert_rows = 0;
};

// What a replica knows of its worker: the lease, the worker's limits and bits, the steps in flight,
// and how far it is trusted. Limits and bits of the last lease stay known until the next lease.
// Pure bookkeeping: knows no link and no scheduler. Belongs to the replica's thread.
class ReplicaWorker {
 public:
  bool attached() const { return epoch_ != 0; }  // there is a lease
  uint64_t epoch() const { return epoch_; }      // 0: no lease
  // True if the worker will leave. Nothing new starts on it.
  bool draining() const { return draining_; }
  bool takes_work() const { return attached() && !draining_; }
  uint64_t incarnation() const { return incarnation_; }
  // Of the current or last lease.
  const std::optional<WorkerBits>& bits() const { return bits_; }
  const WorkerLimits& limits() const { return limits_; }
  CircuitState circuit() const { return breaker_.state(); }
  size_t num_in_flight() const { return in_flight_.size(); }

  // When the last lease ended. InfinitePast: there was none.
  Instant lost_at() const { return lost_at_; }
  // Why there is no lease.
  const absl::Status& lost_reason() const { return lost_reason_; }
  void set_lost_reason(absl::Status reason) { lost_reason_ = std::move(reason); }

  // Returns true if the worker has restarted since the last lease.
  bool Begin(uint64_t epoch, const worker::v1::DescribeResponse& description);
  void Drain() { draining_ = true; }
  void End(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now);
  // Call when the worker serves another router, which judges it from now on.
  void ForgetFailures() { breaker_.ForgetFailures(); }
  // The kind of loss for the circuit breaker if the worker ends the lease now.
  CircuitBreaker::Loss LossNow() const;

  void AddStep(StepInFlight step) { in_flight_.push_back(std::move(step)); }
  // Returns the step that `result` answers. INTERNAL if there is no such step.
  absl::StatusOr<StepInFlight> TakeStep(const worker::v1::StepResult& result, Instant now);

  // Judge the worker by its answer to a step. An error: the worker must be given up.
  absl::Status JudgeRefusal(const StepPlan& plan, const absl::Status& refusal);
  absl::Status JudgeRows(const StepPlan& plan, const StepVerdict& verdict, Instant now);

  // When the router has waited for too long: for the result of the oldest step in flight, or for
  // the end of a lease that drains and runs nothing.
  Instant Deadline(absl::Duration timeout) const;
  // The error after this deadline. `timeout` as for Deadline.
  absl::Status Overdue(absl::Duration timeout) const;

 private:
  absl::Status CountFaults(uint32_t num_faults, const absl::Status& last);

  uint64_t epoch_ = 0;
  uint64_t incarnation_ = 0;
  bool draining_ = false;
  std::optional<WorkerBits> bits_;
  WorkerLimits limits_;
  CircuitBreaker breaker_;
  // After a refused step the worker refuses every step in flight, up to this one.
  StepId doomed_until_ = 0;
  std::deque<StepInFlight> in_flight_;
  Instant last_result_at_ = Instant::InfinitePast();
  Instant lost_at_ = Instant::InfinitePast();
  absl::Status lost_reason_ = absl::UnavailableError("no worker has been reached yet");
};

}  // namespace lockstep::router
