#include "router/core/policy/priority_policy.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/instant.h"
#include "tests/router/core/properties/random_source.h"

namespace lockstep::router {
namespace {

constexpr Instant kStart = Instant();

PolicyView View(int32_t priority, int arrival_s, uint64_t order) {
  return {.priority = priority,
          .arrival = kStart + absl::Seconds(arrival_s),
          .order = order,
          .tenant = "",
          .num_known_tokens = 1};
}

TEST(PriorityPolicyTest, LowerValuesFirst) {
  const auto policy = MakePriorityPolicy(absl::Seconds(10));
  EXPECT_TRUE(policy->Before(View(-1, 5, 2), View(0, 5, 1), kStart));
  EXPECT_TRUE(policy->Before(View(0, 5, 2), View(1, 5, 1), kStart));
  EXPECT_TRUE(policy->Before(View(3, 5, 1), View(3, 5, 2), kStart));
}

TEST(PriorityPolicyTest, WaitingMakesUpForALevel) {
  const auto policy = MakePriorityPolicy(absl::Seconds(10));
  EXPECT_TRUE(policy->Before(View(0, 9, 2), View(1, 0, 1), kStart));
  EXPECT_TRUE(policy->Before(View(1, 0, 1), View(0, 11, 2), kStart));
  EXPECT_TRUE(policy->Before(View(5, 0, 1), View(0, 51, 2), kStart)) << "nobody starves";
}

TEST(PriorityPolicyTest, TheOrderDoesNotDependOnNow) {
  const auto policy = MakePriorityPolicy(absl::Seconds(10));
  const PolicyView a = View(2, 3, 1);
  const PolicyView b = View(1, 12, 2);
  EXPECT_EQ(policy->Before(a, b, kStart), policy->Before(a, b, kStart + absl::Hours(1)));
}

TEST(PriorityPolicyTest, ExtremePrioritiesAreOrdered) {
  const auto policy = MakePriorityPolicy(absl::Hours(24));
  const int32_t most = std::numeric_limits<int32_t>::max();
  const int32_t least = std::numeric_limits<int32_t>::min();
  EXPECT_TRUE(policy->Before(View(least, 5, 2), View(most, 0, 1), kStart));
  EXPECT_FALSE(policy->Before(View(most, 0, 1), View(least, 5, 2), kStart));
}

TEST(PoliciesTest, EveryPolicyIsAStrictTotalOrder) {
  testing::RandomSource random(3);
  std::vector<PolicyView> views;
  for (uint64_t i = 0; i < 40; ++i) {
    const int arrival_s = static_cast<int>(random.Between(0, 5));
    views.push_back(View(static_cast<int32_t>(random.Between(0, 3)), arrival_s, i));
  }
  for (const auto& policy :
       {MakePriorityPolicy(absl::Seconds(2)), MakePriorityPolicy(absl::Hours(24))}) {
    for (const PolicyView& a : views) {
      for (const PolicyView& b : views) {
        const bool same = a.order == b.order;
        ASSERT_EQ(policy->Before(a, b, kStart) + policy->Before(b, a, kStart), same ? 0 : 1);
        for (const PolicyView& c : views) {
          if (!policy->Before(a, b, kStart) || !policy->Before(b, c, kStart)) continue;
          ASSERT_TRUE(policy->Before(a, c, kStart));
        }
      }
    }
  }
}

TEST(PriorityPolicyDeathTest, AgeingMustBePositiveAndFinite) {
  EXPECT_DEATH(MakePriorityPolicy(absl::ZeroDuration()), "positive and finite");
  EXPECT_DEATH(MakePriorityPolicy(absl::InfiniteDuration()), "positive and finite");
}

}  // namespace
}  // namespace lockstep::router
