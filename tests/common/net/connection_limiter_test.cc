#include "common/net/connection_limiter.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace lockstep {
namespace {

using Verdict = ConnectionLimiter::Verdict;

constexpr ConnectionLimiter::AddressKey kHome = {127, 0, 0, 1};
constexpr ConnectionLimiter::AddressKey kAway = {10, 0, 0, 1};

TEST(ConnectionLimiterTest, NobodyTakesAllOfThem) {
  const auto limiter = std::make_shared<ConnectionLimiter>(4, 2);
  auto first = limiter->Admit(kHome);
  auto second = limiter->Admit(kHome);
  EXPECT_EQ(second.first, Verdict::kAdmitted);
  EXPECT_EQ(limiter->Admit(kHome).first, Verdict::kTooManyOfAddress);
  auto third = limiter->Admit(kAway);
  EXPECT_EQ(third.first, Verdict::kAdmitted);
  first.second.reset();
  auto fourth = limiter->Admit(kHome);
  EXPECT_EQ(fourth.first, Verdict::kAdmitted);
  EXPECT_EQ(limiter->num_connections(), 3u);
}

TEST(ConnectionLimiterTest, TogetherTheyAreBoundedToo) {
  const auto limiter = std::make_shared<ConnectionLimiter>(2, 2);
  auto first = limiter->Admit(kHome);
  auto second = limiter->Admit(kAway);
  EXPECT_EQ(limiter->Admit(kAway).first, Verdict::kTooMany);
  second.second.reset();
  EXPECT_EQ(limiter->Admit(kHome).first, Verdict::kAdmitted);
}

TEST(ConnectionLimiterTest, ZeroIsNoBoundOfAnAddress) {
  const auto limiter = std::make_shared<ConnectionLimiter>(100, 0);
  std::vector<std::shared_ptr<void>> places;
  for (int i = 0; i < 100; ++i) {
    auto [verdict, place] = limiter->Admit(kHome);
    EXPECT_EQ(verdict, Verdict::kAdmitted);
    places.push_back(std::move(place));
  }
  EXPECT_EQ(limiter->Admit(kHome).first, Verdict::kTooMany);
  places.clear();
  EXPECT_EQ(limiter->num_connections(), 0u);
}

TEST(ConnectionLimiterTest, PlacesOutliveTheirOwner) {
  auto limiter = std::make_shared<ConnectionLimiter>(1, 1);
  auto place = limiter->Admit(kHome);
  limiter.reset();
  place.second.reset();
}

}  // namespace
}  // namespace lockstep
