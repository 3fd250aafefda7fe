#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::router {

// What a scheduler has done for one tenant, in weighted tokens over the tenant's own weight: a
// virtual token counter (Sheng et al., "Fairness in Serving Large Language Models", 2024, with its
// weights). Tokens of a prompt count in the step that computes them for the first time, so cached
// ones are free; generated ones when they arrive.
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

// The shares of all tenants with live requests, and of some that lately had one. Of two tenants
// that want more than they get, the one that was served less goes first. Their counters so grow
// alike, and each gets tokens in proportion to its weight. A tenant that comes back has saved
// nothing up: its counter is lifted to the least of those that are there. Pure.
class TenantShares {
 public:
  // Of tenants without a live request so many keep what they were served beyond the others.
  static constexpr size_t kMaxIdle = 256;

  // A live request of the tenant more, or less. The reference holds until the last one has left.
  TenantShare& Enter(std::string_view tenant);
  void Leave(std::string_view tenant);

  uint32_t num_active() const { return num_active_; }
  // More than one tenant is here, or was since anybody is.
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
