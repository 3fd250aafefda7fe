#include "router/core/plan/fair_order.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/instant.h"
#include "router/core/policy/priority_policy.h"
#include "router/core/requests/population.h"

namespace lockstep::router {
namespace {

class FairOrderTest : public ::testing::Test {
 protected:
  // The first sequence of a new request.
  Sequence& Add(const std::string& tenant, int32_t priority = 0) {
    auto request = std::make_shared<Request>();
    request->key = ++num_requests_;
    request->tenant = tenant;
    request->priority = priority;
    request->arrival = now_;
    request->prompt_tokens = {1, 2, 3};
    return population_.Add(std::move(request)).samples.front();
  }
  static void Serve(const Sequence& sequence, uint64_t num_tokens) {
    sequence.request->share->Charge(num_tokens, TenantShare::kPromptWeight, /*tenant_weight=*/1);
  }
  FairOrder Order() const { return {*policy_, population_.tenants(), now_}; }
  const Sequence* FairFirst() const { return Order().FairFirst(population_.waiting()); }

  const Instant now_ = Instant::After(absl::Seconds(100));
  const std::unique_ptr<SchedulingPolicy> policy_ = MakePriorityPolicy(absl::Seconds(1));
  Population population_;
  RequestKey num_requests_ = 0;
};

TEST_F(FairOrderTest, OfNothingThereIsNoFirst) { EXPECT_EQ(FairFirst(), nullptr); }

TEST_F(FairOrderTest, OfOneTenantThePolicysFirstGoesFirst) {
  const Sequence& first = Add("a");
  Serve(first, 1000);
  Add("a");
  EXPECT_EQ(FairFirst(), &first);
}

TEST_F(FairOrderTest, TheTenantThatWasServedLeastGoesFirst) {
  Sequence& rich = Add("rich");
  Sequence& poor = Add("poor");
  Serve(rich, 10);
  EXPECT_EQ(FairFirst(), &poor);
  EXPECT_TRUE(Order().FairBefore(poor, rich));
  EXPECT_FALSE(Order().FairBefore(rich, poor));
  EXPECT_TRUE(Order().PolicyBefore(rich, poor)) << "the policy knows no tenants";
  EXPECT_EQ(Order().FirstByPolicy(population_.waiting()), &rich);
}

TEST_F(FairOrderTest, WithinATenantThePolicyDecides) {
  Sequence& first = Add("poor");
  Sequence& second = Add("poor");
  Sequence& rich = Add("rich");
  Serve(rich, 10);
  EXPECT_EQ(FairFirst(), &first);
  EXPECT_TRUE(Order().FairBefore(first, second));
}

TEST_F(FairOrderTest, APriorityComesBeforeFairness) {
  const Sequence& urgent = Add("rich", /*priority=*/-5);
  Serve(urgent, 1000);
  const Sequence& poor = Add("poor");
  EXPECT_EQ(FairFirst(), &urgent);
  EXPECT_TRUE(Order().FairBefore(urgent, poor));
}

}  // namespace
}  // namespace lockstep::router
