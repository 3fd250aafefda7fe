#include "common/instant.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(InstantTest, DurationsLieBetweenInstants) {
  const Instant at = Instant::After(absl::Seconds(5));
  EXPECT_EQ(at - Instant(), absl::Seconds(5));
  EXPECT_EQ(at - absl::Seconds(2), Instant::After(absl::Seconds(3)));
  EXPECT_LT(at, at + absl::Nanoseconds(1));
  EXPECT_GE(at, at);
}

TEST(InstantTest, NothingIsBeyondTheInfiniteOnes) {
  const Instant at = Instant::After(absl::Hours(1'000'000));
  EXPECT_LT(at, Instant::InfiniteFuture());
  EXPECT_LT(Instant::InfinitePast(), at);
  EXPECT_EQ(Instant::InfiniteFuture() + absl::Seconds(1), Instant::InfiniteFuture());
  EXPECT_EQ(Instant::InfiniteFuture() - at, absl::InfiniteDuration());
  EXPECT_EQ(at - Instant::InfinitePast(), absl::InfiniteDuration());
  EXPECT_EQ(Instant::InfinitePast() + absl::Hours(1), Instant::InfinitePast());
}

}  // namespace
}  // namespace lockstep
