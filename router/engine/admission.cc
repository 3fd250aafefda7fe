#include "router/engine/admission.h"

#include <absl/time/time.h>

#include <chrono>
#include <string>

#include "common/status.h"
#include "router/engine/violations.h"

namespace lockstep::router {

absl::Status AdmissionLimits::Validate() const {
  Violations violations;
  violations.Require(max_waiting_requests > 0, "max_waiting_requests: must be at least 1");
  violations.Require(max_waiting_tokens > 0, "max_waiting_tokens: must be at least 1");
  violations.Require(max_open_requests > 0, "max_open_requests: must be at least 1");
  return violations.ToStatus();
}

absl::StatusOr<std::shared_ptr<Admission::Ticket>> Admission::TryAdmit(uint64_t estimated_tokens,
                                                                       Rejection& rejection) {
  if (estimated_tokens > limits_.max_waiting_tokens) {
    rejection = Rejection::kQueueTokens;
    return InvalidArgument("prompt: about {} tokens, at most {} may wait", estimated_tokens,
                           limits_.max_waiting_tokens);
  }
  MutexLock lock(mutex_);
  if (counts_.open_requests >= limits_.max_open_requests) {
    rejection = Rejection::kOpenRequests;
    return ResourceExhausted("{} requests are open, which is the limit", counts_.open_requests);
  }
  if (counts_.waiting_requests >= limits_.max_waiting_requests) {
    rejection = Rejection::kQueueRequests;
    return ResourceExhausted("the queue is full: {} requests wait", counts_.waiting_requests);
  }
  if (counts_.waiting_tokens > limits_.max_waiting_tokens - estimated_tokens) {
    rejection = Rejection::kQueueTokens;
    return ResourceExhausted(
        "the queue is full: {} prompt tokens wait, about {} more would pass the limit of {}",
        counts_.waiting_tokens, estimated_tokens, limits_.max_waiting_tokens);
  }
  ++counts_.open_requests;
  ++counts_.waiting_requests;
  counts_.waiting_tokens += estimated_tokens;
  return std::shared_ptr<Ticket>(new Ticket(shared_from_this(), estimated_tokens));
}

Admission::Ticket::~Ticket() {
  StopWaiting();
  MutexLock lock(owner_->mutex_);
  if (--owner_->counts_.open_requests == 0) owner_->none_open_.NotifyAll();
}

void Admission::Ticket::SetPromptTokens(uint64_t num_tokens) {
  MutexLock lock(owner_->mutex_);
  if (!waiting_) return;
  owner_->counts_.waiting_tokens += num_tokens - num_tokens_;  // modulo 2^64: the sum is exact
  num_tokens_ = num_tokens;
}

void Admission::Ticket::StopWaiting() {
  MutexLock lock(owner_->mutex_);
  if (!waiting_) return;
  waiting_ = false;
  --owner_->counts_.waiting_requests;
  owner_->counts_.waiting_tokens -= num_tokens_;
}

Admission::Counts Admission::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

bool Admission::WaitUntilNoneOpen(absl::Duration timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (counts_.open_requests > 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    none_open_.WaitFor(mutex_, left);
  }
  return true;
}

}  // namespace lockstep::router
