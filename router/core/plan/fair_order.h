#pragma once

#include <span>

#include "common/instant.h"
#include "router/core/policy/policy.h"
#include "router/core/policy/tenant_shares.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// The order of sequences that start, at one moment.
//
// The fair order: the first sequence in the policy's order decides which priority starts next.
// Within this priority, the tenant that was served least goes first (TenantShares). Within a
// tenant, the policy's order counts.
class FairOrder {
 public:
  // Both must outlive the object.
  FairOrder(const SchedulingPolicy& policy, const TenantShares& tenants, Instant now)
      : policy_(policy), tenants_(tenants), now_(now) {}

  // The policy's order.
  bool PolicyBefore(const Sequence& a, const Sequence& b) const {
    return policy_.Before(a.view, b.view, now_);
  }
  // Call only with at least one sequence.
  Sequence* FirstByPolicy(std::span<Sequence* const> sequences) const;

  // The fair order when only these two are compared.
  bool FairBefore(const Sequence& a, const Sequence& b) const;
  // Null if there is no sequence.
  Sequence* FairFirst(std::span<Sequence* const> sequences) const;

 private:
  const SchedulingPolicy& policy_;
  const TenantShares& tenants_;
  const Instant now_;
};

}  // namespace lockstep::router
