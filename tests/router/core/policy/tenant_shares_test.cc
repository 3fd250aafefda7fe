#include "router/core/policy/tenant_shares.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::router {
namespace {

TEST(TenantSharesTest, WhoComesIsLiftedToTheLeastOfThoseWhoAreThere) {
  TenantShares shares;
  shares.Enter("a").served = 500;
  shares.Enter("b").served += 300;  // lifted to 500 first
  EXPECT_EQ(shares.Enter("c").served, 500u);
  EXPECT_EQ(shares.num_active(), 3u);
  EXPECT_TRUE(shares.CheckIntegrity().ok());
}

TEST(TenantSharesTest, WhoWasServedMoreKeepsItsCounter) {
  TenantShares shares;
  shares.Enter("a").served = 100;
  shares.Enter("b").served = 900;
  shares.Leave("b");
  EXPECT_EQ(shares.Enter("b").served, 900u);
}

TEST(TenantSharesTest, WhoWeighsMoreIsChargedLess) {
  TenantShare share;
  share.Charge(6, TenantShare::kPromptWeight, 1);
  EXPECT_EQ(share.served, 6);
  share.Charge(6, TenantShare::kOutputWeight, 4);
  EXPECT_EQ(share.served, 9);
  share.Charge(1, TenantShare::kPromptWeight, 0.5);
  EXPECT_EQ(share.served, 11);
}

TEST(TenantSharesTest, FurtherRequestsOfATenantChangeNothing) {
  TenantShares shares;
  shares.Enter("a").served = 100;
  shares.Enter("b");
  shares.Enter("a").served += 50;
  EXPECT_EQ(shares.Enter("b").served, 100u);
  shares.Leave("b");
  EXPECT_EQ(shares.num_active(), 2u);
  EXPECT_EQ(shares.num_live_requests(), 3u);
}

TEST(TenantSharesTest, NothingIsRememberedOnceNobodyIsThere) {
  TenantShares shares;
  shares.Enter("a").served = 100;
  shares.Leave("a");
  EXPECT_EQ(shares.num_idle(), 0u);
  EXPECT_EQ(shares.Enter("a").served, 0u);
}

TEST(TenantSharesTest, IdleTenantsAreBounded) {
  TenantShares shares;
  shares.Enter("here");
  for (size_t i = 0; i < 2 * TenantShares::kMaxIdle; ++i) {
    const std::string name = "visitor " + std::to_string(i);
    shares.Enter(name).served = 1 + i;
    shares.Leave(name);
    ASSERT_TRUE(shares.CheckIntegrity().ok());
  }
  EXPECT_EQ(shares.num_idle(), TenantShares::kMaxIdle);
  EXPECT_EQ(shares.Enter("visitor 511").served, 512u) << "who was served most is remembered";
  EXPECT_EQ(shares.Enter("visitor 0").served, 0u);
}

}  // namespace
}  // namespace lockstep::router
