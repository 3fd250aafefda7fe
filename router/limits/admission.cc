#include "router/limits/admission.h"

#include <absl/time/time.h>

#include <algorithm>
#include <chrono>

#include "common/runtime/wait_until.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep::router {

absl::Status AdmissionLimits::Validate() const {
  Violations violations;
  violations.Require(max_waiting_requests > 0, "max_waiting_requests: must be at least 1");
  violations.Require(max_waiting_tokens > 0, "max_waiting_tokens: must be at least 1");
  violations.Require(max_open_requests > 0, "max_open_requests: must be at least 1");
  return violations.ToStatus();
}

absl::Status Admission::CheckShare(uint64_t estimated_tokens, std::string_view owner,
                                   Rejection& rejection) const {
  const auto found = owners_.find(owner);
  // An owner's first open request is always within its share.
  if (found == owners_.end()) return absl::OkStatus();
  const Counts& own = found->second;
  if (own.open_requests >= limits_.max_open_requests - counts_.open_requests) {
    rejection = Rejection::kOpenRequests;
    return ResourceExhausted("{} requests of tenant \"{}\" are open, which is its share",
                             own.open_requests, owner);
  }
  if (own.waiting_requests >= limits_.max_waiting_requests - counts_.waiting_requests) {
    rejection = Rejection::kQueueRequests;
    return ResourceExhausted("{} requests of tenant \"{}\" wait, which is its share of the queue",
                             own.waiting_requests, owner);
  }
  const uint64_t num_left = limits_.max_waiting_tokens - counts_.waiting_tokens - estimated_tokens;
  if (own.waiting_requests > 0 && own.waiting_tokens + estimated_tokens > num_left) {
    rejection = Rejection::kQueueTokens;
    return ResourceExhausted(
        "{} prompt tokens of tenant \"{}\" wait, about {} more would pass its share of the queue",
        own.waiting_tokens, owner, estimated_tokens);
  }
  return absl::OkStatus();
}

absl::Status Admission::CheckBatch(uint64_t num_requests, uint64_t estimated_tokens,
                                   std::string_view owner) const {
  const uint64_t num_places = std::min(limits_.max_waiting_requests, limits_.max_open_requests);
  // If the number of places is odd, an owner that is alone gets the larger half. Its last request
  // is not counted yet when it is compared with what is left.
  const uint64_t max_requests = owner.empty() ? num_places : num_places - num_places / 2;
  if (num_requests > max_requests) {
    return InvalidArgument("prompt: {} prompts, at most {} may wait", num_requests, max_requests);
  }
  const uint64_t max_tokens =
      owner.empty() ? limits_.max_waiting_tokens : limits_.max_waiting_tokens / 2;
  if (estimated_tokens > max_tokens) {
    return InvalidArgument("prompt: about {} tokens in {} prompts, at most {} may wait",
                           estimated_tokens, num_requests, max_tokens);
  }
  return absl::OkStatus();
}

void Admission::CountTokens(const std::string& owner, uint64_t num_tokens) {
  counts_.waiting_tokens += num_tokens;
  if (!owner.empty()) owners_[owner].waiting_tokens += num_tokens;
}

absl::StatusOr<std::shared_ptr<Admission::Ticket>> Admission::TryAdmit(uint64_t estimated_tokens,
                                                                       std::string_view owner,
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
  LOCKSTEP_RETURN_IF_ERROR(CheckShare(estimated_tokens, owner, rejection));
  std::shared_ptr<Ticket> ticket(new Ticket(shared_from_this(), owner, estimated_tokens));
  ++counts_.open_requests;
  ++counts_.waiting_requests;
  if (!owner.empty()) {
    Counts& own = owners_[ticket->owner_];
    ++own.open_requests;
    ++own.waiting_requests;
  }
  CountTokens(ticket->owner_, estimated_tokens);
  return ticket;
}

Admission::Ticket::~Ticket() {
  StopWaiting();
  MutexLock lock(admission_->mutex_);
  if (!owner_.empty()) {
    const auto own = admission_->owners_.find(owner_);
    if (--own->second.open_requests == 0) admission_->owners_.erase(own);
  }
  if (--admission_->counts_.open_requests == 0) admission_->none_open_.NotifyAll();
}

void Admission::Ticket::SetPromptTokens(uint64_t num_tokens) {
  MutexLock lock(admission_->mutex_);
  if (!waiting_) return;
  admission_->CountTokens(owner_, num_tokens - num_tokens_);
  num_tokens_ = num_tokens;
}

void Admission::Ticket::StopWaiting() {
  MutexLock lock(admission_->mutex_);
  if (!waiting_) return;
  waiting_ = false;
  --admission_->counts_.waiting_requests;
  admission_->CountTokens(owner_, 0 - num_tokens_);
  if (!owner_.empty()) --admission_->owners_[owner_].waiting_requests;
}

Admission::Counts Admission::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

bool Admission::WaitUntilNoneOpen(absl::Duration timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (counts_.open_requests > 0) {
    if (!WaitUntil(mutex_, none_open_, deadline)) return false;
  }
  return true;
}

}  // namespace lockstep::router
