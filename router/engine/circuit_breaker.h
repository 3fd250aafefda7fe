#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::router {

// Closed: the worker is, or was last seen, well. Open: it failed and is away. Half-open: it failed,
// is back, and has yet to prove itself.
enum class CircuitState { kClosed, kOpen, kHalfOpen };

// The circuit breaker of one replica. A lease that ends with steps unanswered is a failure; so many
// in a row, or one worker that hung, break the circuit, and the next lease is on trial until its
// results have come over some time. Says who may be given work; when a worker is attached again
// decides its link (ReattachBackoff). Pure.
class CircuitBreaker {
 public:
  static constexpr uint32_t kMaxFailures = 2;  // in a row
  static constexpr absl::Duration kProof = absl::Seconds(1);

  enum class Loss {
    kIdle,     // nothing was asked of the worker, or it left in peace: says nothing
    kFailure,  // it went with steps unanswered, or answered nonsense
    kHang,     // it was there and did not answer
  };

  void OnAttach() {
    attached_ = true;
    first_result_at_ = absl::InfiniteFuture();
  }
  // Of a step that ran something.
  void OnResult(absl::Time now) {
    first_result_at_ = std::min(first_result_at_, now);
    if (now - first_result_at_ >= kProof) num_failures_ = 0;
  }
  void OnLoss(Loss loss) {
    attached_ = false;
    if (loss == Loss::kFailure) ++num_failures_;
    if (loss == Loss::kHang) num_failures_ = std::max(num_failures_ + 1, kMaxFailures);
  }

  CircuitState state() const {
    if (num_failures_ < kMaxFailures) return CircuitState::kClosed;
    return attached_ ? CircuitState::kHalfOpen : CircuitState::kOpen;
  }

 private:
  uint32_t num_failures_ = 0;  // since the last proof
  bool attached_ = false;
  absl::Time first_result_at_ = absl::InfiniteFuture();  // of the lease
};

}  // namespace lockstep::router
