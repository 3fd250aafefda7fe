#include "router/auth/tenant_limiter.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {

struct TenantLimiter::State {
  Mutex mutex;
  uint32_t num_open ABSL_GUARDED_BY(mutex) = 0;
  std::unique_ptr<TokenBucket> bucket ABSL_GUARDED_BY(mutex);  // null: no rate so far

  Admission Refusal(const Tenant& tenant, Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (tenant.max_open_requests > 0 && num_open >= tenant.max_open_requests) {
      return {.refusal = ResourceExhausted("tenant \"{}\" has {} requests open, its limit",
                                           tenant.name, num_open)};
    }
    if (tenant.tokens_per_second == 0) {
      bucket = nullptr;
      return {};
    }
    if (bucket == nullptr) bucket = std::make_unique<TokenBucket>(tenant.burst_tokens, now);
    const absl::Duration wait = bucket->Wait(tenant.tokens_per_second, tenant.burst_tokens, now);
    if (wait == absl::ZeroDuration()) return {};
    return {.refusal = ResourceExhausted("tenant \"{}\" is beyond its {:.0f} tokens a second",
                                         tenant.name, tenant.tokens_per_second),
            .retry_after = wait};
  }
};

absl::Duration TokenBucket::Wait(double rate, double burst, Instant now) {
  if (now > filled_at_) {  // a clock that goes back gives nothing
    tokens_ = std::min(burst, tokens_ + rate * absl::ToDoubleSeconds(now - filled_at_));
    filled_at_ = now;
  }
  return tokens_ > 0 ? absl::ZeroDuration()
                     : std::max(absl::Seconds(-tokens_ / rate), absl::Milliseconds(1));
}

TenantLimiter::Ticket::~Ticket() {
  MutexLock lock(state_->mutex);
  --state_->num_open;
}

void TenantLimiter::Ticket::Charge(double tokens) const {
  MutexLock lock(state_->mutex);
  if (state_->bucket != nullptr) state_->bucket->Spend(tokens);
}

std::shared_ptr<TenantLimiter::State> TenantLimiter::StateOf(const Tenant& tenant) {
  MutexLock lock(mutex_);
  std::shared_ptr<State>& entry = states_[tenant.name];
  if (entry == nullptr) entry = std::make_shared<State>();
  return entry;
}

TenantLimiter::Admission TenantLimiter::Admit(const Tenant& tenant, Instant now) {
  const std::shared_ptr<State> state = StateOf(tenant);
  MutexLock lock(state->mutex);
  Admission admission = state->Refusal(tenant, now);
  if (admission.refusal.ok()) {
    ++state->num_open;
    admission.ticket = std::make_unique<Ticket>(state);
  }
  return admission;
}

TenantLimiter::Admission TenantLimiter::Check(const Tenant& tenant, Instant now) {
  const std::shared_ptr<State> state = StateOf(tenant);
  MutexLock lock(state->mutex);
  return state->Refusal(tenant, now);
}

}  // namespace lockstep::router
