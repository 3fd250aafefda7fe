#include "router/workers/link/lease_claims.h"

#include <algorithm>

#include "common/lease_epoch.h"

namespace lockstep::router {

uint64_t LeaseClaims::Claim(uint64_t last_granted, absl::Time now) {
  const bool ours = IsOurs(last_granted);
  const auto time = static_cast<uint64_t>(absl::ToUnixMicros(now));
  last_epoch_ = std::max({last_epoch_ + 1, last_granted + 1, time});
  // Another router may have jumped ahead in an earlier life of the worker. Our epoch may then be
  // higher than this life of the worker accepts.
  if (last_epoch_ > HighestClaimableEpoch(last_granted)) {
    last_epoch_ = std::max(last_granted + 1, time);
  }
  claimed_.push_back(last_epoch_);
  if (claimed_.size() > kMaxClaims) claimed_.erase(claimed_.begin() + (ours ? 1 : 0));
  return last_epoch_;
}

bool LeaseClaims::IsOurs(uint64_t last_granted) {
  while (!claimed_.empty() && claimed_.front() < last_granted) claimed_.pop_front();
  return !claimed_.empty() && claimed_.front() == last_granted;
}

}  // namespace lockstep::router
