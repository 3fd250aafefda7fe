#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>

#include "common/clock.h"
#include "router/engine/admission.h"
#include "router/engine/replica_loop.h"

namespace lockstep::router {

struct EngineConfig {
  AdmissionLimits admission;
  ReplicaConfig replica;
  size_t max_pending_output_bytes = 1 << 20;  // of one request whose client lags

  absl::Status Validate() const;  // every violation at once
};

// What the API layer sees of everything behind it: admits requests, hands them to the replica, and
// drains. All methods may be called from any thread and never block, WaitUntilDrained excepted.
class Engine {
 public:
  // `clock` and `metrics` must outlive the object; `on_readiness_change` must not block.
  Engine(EngineConfig config, std::unique_ptr<SchedulingPolicy> policy,
         std::unique_ptr<StepLink> link, const Clock* clock, RouterMetrics* metrics,
         std::function<void()> on_readiness_change);

  // UNAVAILABLE while draining or without a worker, RESOURCE_EXHAUSTED over a limit,
  // INVALID_ARGUMENT when it can never be below; all before any work on the request. The ticket is
  // the request's place: hold it until the client has everything.
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> Admit(uint64_t estimated_prompt_tokens);
  RequestKey NextKey() { return next_key_.fetch_add(1); }
  // `on_ready` is called on the loop's thread when the outbox has news.
  std::shared_ptr<Outbox> MakeOutbox(std::function<void()> on_ready) const;
  // Everything that follows, also a refusal, comes through the outbox.
  void Submit(Submission submission);
  // At most once per request.
  void Cancel(RequestKey request, CancelCause cause);
  // At most once per sequence: its text ended at a stop string.
  void StopSequence(RequestKey request, uint32_t sample_index);

  // New requests get UNAVAILABLE from now on; running ones go on.
  void StartDrain();
  bool draining() const { return draining_.load(); }
  // True once no request is open.
  bool WaitUntilDrained(absl::Duration timeout) const {
    return admission_->WaitUntilNoneOpen(timeout);
  }
  // Ends every request as aborted, with UNAVAILABLE, also those that are submitted from now on.
  void CancelAll() { replica_.inbox().CancelAll(); }

  // A new request would be taken on: it has a worker, or waits behind one that drains for the next.
  bool ready() const;
  ReplicaStatus replica_status() const { return replica_.status(); }
  Admission::Counts admission_counts() const { return admission_->counts(); }

 private:
  const EngineConfig config_;
  RouterMetrics& metrics_;
  const std::function<void()> on_readiness_change_;
  const std::shared_ptr<Admission> admission_;
  std::atomic<RequestKey> next_key_ = 1;
  std::atomic<bool> draining_ = false;
  ReplicaLoop replica_;
};

}  // namespace lockstep::router
