#include "router/workers/link/lease_claims.h"

#include <gtest/gtest.h>

#include "common/lease_epoch.h"

namespace lockstep::router {
namespace {

absl::Time At(int64_t micros) { return absl::FromUnixMicros(micros); }

TEST(LeaseClaimsTest, EpochsAreTimesAndAlwaysRise) {
  LeaseClaims claims;
  EXPECT_EQ(claims.Claim(0, At(1000)), 1000u);
  EXPECT_EQ(claims.Claim(0, At(1000)), 1001u) << "the clock stands still";
  EXPECT_EQ(claims.Claim(0, At(500)), 1002u) << "the clock goes back";
  EXPECT_EQ(claims.Claim(5000, At(2000)), 5001u) << "another router was ahead";
  EXPECT_EQ(claims.Claim(5001, At(9000)), 9000u);
}

TEST(LeaseClaimsTest, AClaimIsOursOnceTheWorkerNamesIt) {
  LeaseClaims claims;
  EXPECT_FALSE(claims.IsOurs(0));
  const uint64_t unanswered = claims.Claim(0, At(1000));
  EXPECT_FALSE(claims.IsOurs(0)) << "it has not arrived";
  EXPECT_TRUE(claims.IsOurs(unanswered));
  EXPECT_TRUE(claims.IsOurs(unanswered)) << "and stays ours";
  EXPECT_FALSE(claims.IsOurs(unanswered + 1)) << "somebody else's";
  EXPECT_FALSE(claims.IsOurs(unanswered)) << "ours was before that";
}

TEST(LeaseClaimsTest, AnyOfSeveralUnansweredClaimsMayHaveArrived) {
  LeaseClaims claims;
  const uint64_t first = claims.Claim(0, At(1000));
  const uint64_t second = claims.Claim(0, At(2000));
  const uint64_t third = claims.Claim(0, At(3000));
  EXPECT_TRUE(claims.IsOurs(second));
  EXPECT_FALSE(claims.IsOurs(first)) << "a worker's epochs rise";
  EXPECT_TRUE(claims.IsOurs(third));
}

TEST(LeaseClaimsTest, ARefusedClaimIsNotOurs) {
  LeaseClaims claims;
  const uint64_t granted = claims.Claim(0, At(1000));
  const uint64_t refused = claims.Claim(granted, At(2000));
  claims.OnRefused();
  EXPECT_TRUE(claims.IsOurs(granted));
  EXPECT_FALSE(claims.IsOurs(refused)) << "another router claimed the same epoch";
  EXPECT_GT(claims.Claim(granted, At(2000)), refused);
}

TEST(LeaseClaimsTest, AWorkerThatForgotItsEpochsGetsOneThatItAccepts) {
  LeaseClaims claims;
  const uint64_t far_ahead = kFreeEpochs + 7;
  EXPECT_EQ(claims.Claim(far_ahead, At(1000)), far_ahead + 1);
  EXPECT_EQ(claims.Claim(0, At(2000)), 2000u) << "the worker restarted";
  EXPECT_EQ(claims.Claim(2000, At(2000)), 2001u);
}

TEST(LeaseClaimsTest, ManyUnansweredClaimsKeepTheLeaseThatWasGranted) {
  LeaseClaims claims;
  const uint64_t granted = claims.Claim(0, At(1000));
  uint64_t newest = 0;
  for (size_t i = 0; i < 3 * LeaseClaims::kMaxClaims; ++i) {
    newest = claims.Claim(granted, At(2000));
  }
  EXPECT_TRUE(claims.IsOurs(granted));
  EXPECT_TRUE(claims.IsOurs(newest));
}

TEST(LeaseClaimsTest, ManyUnansweredClaimsAreForgottenOldestFirst) {
  LeaseClaims claims;
  const uint64_t oldest = claims.Claim(0, At(1000));
  for (size_t i = 1; i < LeaseClaims::kMaxClaims; ++i) claims.Claim(0, At(1000));
  LeaseClaims one_more = claims;
  const uint64_t newest = one_more.Claim(0, At(1000));
  EXPECT_TRUE(claims.IsOurs(oldest));
  EXPECT_FALSE(one_more.IsOurs(oldest));
  EXPECT_TRUE(one_more.IsOurs(oldest + 1));
  EXPECT_TRUE(one_more.IsOurs(newest));
}

}  // namespace
}  // namespace lockstep::router
