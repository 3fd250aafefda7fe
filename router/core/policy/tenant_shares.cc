#include "router/core/policy/tenant_shares.h"

#include <algorithm>
#include <limits>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {

TenantShare& TenantShares::Enter(std::string_view tenant) {
  auto found = shares_.find(tenant);
  if (found == shares_.end()) found = shares_.emplace(std::string(tenant), TenantShare()).first;
  TenantShare& share = found->second;
  if (share.num_live_requests++ > 0) return share;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [name, other] : shares_) {
    if (&other != &share && other.num_live_requests > 0) least = std::min(least, other.served);
  }
  if (num_active_++ > 0) share.served = std::max(share.served, least);
  return share;
}

void TenantShares::Leave(std::string_view tenant) {
  const auto found = shares_.find(tenant);
  LOCKSTEP_CHECK(found != shares_.end() && found->second.num_live_requests > 0,
                 "tenant '{}' has no live request", tenant);
  if (--found->second.num_live_requests > 0) return;
  // No tenant competes any more, so all counters may start again from zero.
  if (--num_active_ == 0) return shares_.clear();
  if (num_idle() > kMaxIdle) ForgetLeastIdle();
}

void TenantShares::ForgetLeastIdle() {
  auto least = shares_.end();
  for (auto it = shares_.begin(); it != shares_.end(); ++it) {
    if (it->second.num_live_requests > 0) continue;
    if (least == shares_.end() || it->second.served < least->second.served) least = it;
  }
  shares_.erase(least);
}

uint64_t TenantShares::num_live_requests() const {
  uint64_t sum = 0;
  for (const auto& [name, share] : shares_) sum += share.num_live_requests;
  return sum;
}

uint64_t TenantShares::num_running() const {
  uint64_t sum = 0;
  for (const auto& [name, share] : shares_) sum += share.num_running;
  return sum;
}

absl::Status TenantShares::CheckIntegrity() const {
  const auto num_active = std::ranges::count_if(
      shares_, [](const auto& entry) { return entry.second.num_live_requests > 0; });
  if (num_active != num_active_) {
    return Internal("{} tenants have live requests, {} recorded", num_active, num_active_);
  }
  if (num_idle() > kMaxIdle) return Internal("{} idle tenants are remembered", num_idle());
  return absl::OkStatus();
}

}  // namespace lockstep::router
