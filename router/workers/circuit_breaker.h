#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

#include "common/instant.h"

namespace lockstep::router {

// Closed: the worker is, or was last seen, well. Open: it failed and is away. Half-open: it failed,
// is back, and has yet to prove itself.
enum class CircuitState { kClosed, kOpen, kHalfOpen };

// The circuit breaker of one replica. A lease that ends with steps unanswered is a failure; so many
// in a row, or one worker that hung, break the circuit, and the next lease is on trial until its
// results have come over some time. A worker that is there and does not do what it is told (it
// refuses steps, or fails every row) is given up after some faults in a row, which breaks the
// circuit as well. Says who may be given work; when a worker is attached again
// decides its link (ReattachBackoff). Pure.
class CircuitBreaker {
 public:
  static constexpr uint32_t kMaxFailures = 2;  // in a row
  static constexpr absl::Duration kProof = absl::Seconds(1);
  // Faults in a row. One sequence that no worker can run is at fault for kMaxRefusals of a sequence
  // (sequence.h), so a worker that has served before gets one more. One that has not gets fewer:
  // it is given up before it fails a sequence. On trial one is enough.
  static constexpr uint32_t kMaxFaults = 4;
  static constexpr uint32_t kMaxFirstFaults = 2;

  enum class Loss {
    kIdle,     // nothing was asked of the worker, or it left in peace: says nothing
    kFailure,  // it went with steps unanswered, or answered nonsense
    kHang,     // it was there and did not answer
    kFaults,   // it was there and did not do what it was told
  };

  void OnAttach() {
    attached_ = true;
    first_result_at_ = Instant::InfiniteFuture();
    num_faults_ = 0;
  }
  // Of a step that ran something.
  void OnResult(Instant now) {
    num_faults_ = 0;
    first_result_at_ = std::min(first_result_at_, now);
    if (now - first_result_at_ >= kProof) num_failures_ = 0;
  }
  // A refused step, or the requests whose rows failed in a step that ran no other. Several rows of
  // one request are one fault: no client shall be able to break the circuit with one request. True:
  // the worker is to be given up.
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

  CircuitState state() const {
    if (num_failures_ < kMaxFailures) return CircuitState::kClosed;
    return attached_ ? CircuitState::kHalfOpen : CircuitState::kOpen;
  }

 private:
  uint32_t num_failures_ = 0;  // since the last proof
  uint32_t num_faults_ = 0;    // of the lease, in a row
  bool attached_ = false;
  Instant first_result_at_ = Instant::InfiniteFuture();  // of the lease
};

}  // namespace lockstep::router
