#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace lockstep::router {

// Closed: the worker is well, or was well when last seen. Open: it failed and is away. Half-open:
// it failed and is back, but has not proven itself yet.
enum class CircuitState { kClosed, kOpen, kHalfOpen };

// The circuit breaker of one replica. A lease that ends with unanswered steps is a failure.
// kMaxFailures failures in a row break the circuit, and so does one worker that hung. The next
// lease is then on trial until its results have come for kProof. A worker that answers but does not
// do its work (it refuses steps, or fails every row) is given up after some faults in a row. This
// breaks the circuit as well. Decides whether a replica may be given work. Does not decide when its
// worker is attached again: its link does that (ReattachBackoff). Pure.
class CircuitBreaker {
 public:
  static constexpr uint32_t kMaxFailures = 2;  // in a row
  static constexpr absl::Duration kProof = absl::Seconds(1);
  // Faults in a row. One sequence that no worker can run causes at most kMaxRefusals faults
  // (sequence.h), so a worker that has served before may have one more. A worker that has not
  // served may have fewer: it is given up before it fails a sequence. On trial, one fault is
  // enough.
  static constexpr uint32_t kMaxFaults = 4;
  static constexpr uint32_t kMaxFirstFaults = 2;

  enum class Loss {
    kIdle,     // it was asked for nothing, or left in peace: says nothing
    kFailure,  // it left steps unanswered, or its answer made no sense
    kHang,     // it was there but did not answer
    kFaults,   // it was there but did not do its work
  };

  void OnAttach() {
    attached_ = true;
    first_result_at_ = Instant::InfiniteFuture();
    num_faults_ = 0;
  }
  // Call for a result with at least one row that ran and did not fail.
  void OnResult(Instant now) {
    num_faults_ = 0;
    first_result_at_ = std::min(first_result_at_, now);
    if (now - first_result_at_ >= kProof) num_failures_ = 0;
  }
  // Call for a refused step, or for a step with no row that ran without failing. `count`: 1, or the
  // number of requests that failed. Several failed rows of one request are one fault, so that no
  // client can break the circuit with one request. Returns true if the worker must be given up.
  bool OnFaults(uint32_t count) {
    num_faults_ += count;
    if (state() == CircuitState::kHalfOpen) return true;
    const bool has_served = first_result_at_ != Instant::InfiniteFuture();
    return num_faults_ >= (has_served ? kMaxFaults : kMaxFirstFaults);
  }
  uint32_t num_faults() const { return num_faults_; }  // in a row
  void OnLoss(Loss loss) {
    attached_ = false;
    if (loss == Loss::kFailure) ++num_failures_;
    if (loss == Loss::kHang || loss == Loss::kFaults) {
      num_failures_ = std::max(num_failures_ + 1, kMaxFailures);
    }
  }
  // Closes the circuit. Call while the worker is away.
  void ForgetFailures() { num_failures_ = 0; }

  CircuitState state() const {
    if (num_failures_ < kMaxFailures) return CircuitState::kClosed;
    return attached_ ? CircuitState::kHalfOpen : CircuitState::kOpen;
  }

 private:
  uint32_t num_failures_ = 0;  // since the last proof
  uint32_t num_faults_ = 0;    // in a row, on this lease
  bool attached_ = false;
  Instant first_result_at_ = Instant::InfiniteFuture();  // on this lease
};

}  // namespace lockstep::router
