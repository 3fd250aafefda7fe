#include "router/core/policy/priority_policy.h"

#include "common/check.h"
#include "common/instant.h"

namespace lockstep::router {
namespace {

class PriorityPolicy final : public SchedulingPolicy {
 public:
  explicit PriorityPolicy(absl::Duration ageing) : ageing_(ageing) {
    LOCKSTEP_CHECK(ageing > absl::ZeroDuration() && ageing < absl::InfiniteDuration(),
                   "ageing must be positive and finite");
  }

  bool Before(const PolicyView& a, const PolicyView& b, Instant /*now*/) const override {
    const Instant a_due = a.arrival + a.priority * ageing_;
    const Instant b_due = b.arrival + b.priority * ageing_;
    if (a_due != b_due) return a_due < b_due;
    return a.order < b.order;
  }

 private:
  const absl::Duration ageing_;
};

}  // namespace

std::unique_ptr<SchedulingPolicy> MakePriorityPolicy(absl::Duration ageing) {
  return std::make_unique<PriorityPolicy>(ageing);
}

}  // namespace lockstep::router
