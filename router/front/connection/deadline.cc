#include "router/front/connection/deadline.h"

namespace lockstep::router {

void Deadline::Set(std::chrono::nanoseconds timeout, const std::weak_ptr<void>& owner) {
  // More than a century means no deadline. It would also overflow a time point.
  constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365 * 100);
  if (timeout >= kForever) return Clear();
  at_ = Clock::now() + timeout;
  if (!waiting_ || timer_.expiry() > *at_) Wait(owner);
}

void Deadline::Wait(const std::weak_ptr<void>& owner) {
  waiting_ = true;
  timer_.expires_at(*at_);
  timer_.async_wait([this, wait = ++wait_, owner](boost::system::error_code) {
    if (const std::shared_ptr<void> alive = owner.lock()) OnTimer(wait, owner);
  });
}

void Deadline::OnTimer(uint64_t wait, const std::weak_ptr<void>& owner) {
  if (wait != wait_) return;
  waiting_ = false;
  if (!at_.has_value()) return;
  if (*at_ > Clock::now()) return Wait(owner);
  at_.reset();
  on_passed_();
}

}  // namespace lockstep::router
