#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::router {

// What a scheduler has done for one tenant: weighted tokens divided by the tenant's own weight.
// This is a virtual token counter (Sheng et al., "Fairness in Serving Large Language Models", 2024,
// with its weights). Prompt tokens count in the step that computes them for the first time, so
// cached tokens are free. Generated tokens count when they arrive.
struct TenantShare {
  static constexpr double kPromptWeight = 1;
  static constexpr double kOutputWeight = 2;

  void Charge(uint64_t num_tokens, double token_weight, double tenant_weight) {
    served += static_cast<double>(num_tokens) * token_weight / tenant_weight;
  }

  double served = 0;
  uint32_t num_live_requests = 0;
  uint32_t num_running = 0;  // sequences
};

// The shares of all tenants with live requests, and of some tenants that had one lately. If two
// tenants want more than they get, the tenant that was served less goes first. So their counters
// grow at the same speed, and each gets tokens in proportion to its weight. A tenant cannot save up
// service while it is away: when it comes back, its counter is raised to the lowest counter among
// tenants with live requests. Pure.
class TenantShares {
 public:
  // At most this many tenants without a live request keep their counters.
  static constexpr size_t kMaxIdle = 256;

  // Call when the tenant gets one live request more (Enter) or less (Leave). The reference is valid
  // until the tenant's last request has left.
  TenantShare& Enter(std::string_view tenant);
  void Leave(std::string_view tenant);

  uint32_t num_active() const { return num_active_; }
  // More than one tenant has live requests, or had them since the scheduler was last empty.
  bool several() const { return shares_.size() > 1; }
  size_t num_idle() const { return shares_.size() - num_active_; }
  // Sums over all tenants.
  uint64_t num_live_requests() const;
  uint64_t num_running() const;
  absl::Status CheckIntegrity() const;

 private:
  using Shares = std::map<std::string, TenantShare, std::less<>>;

  void ForgetLeastIdle();

  Shares shares_;
  uint32_t num_active_ = 0;
};

}  // namespace lockstep::router
