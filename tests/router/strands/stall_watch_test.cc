#include "router/strands/stall_watch.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>

#include "router/strands/strand_pool.h"
#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

Instant At(int seconds) { return Instant::After(absl::Seconds(seconds)); }

// Returns once the pool's one thread has taken everything that was scheduled before.
void Settle(StrandPool& pool) {
  std::latch done(1);
  pool.Schedule(std::make_shared<testing::FunctionStrand>([&done] { done.count_down(); }));
  done.wait();
}

TEST(StallWatchTest, AThreadThatTakesWorkIsNeverStalled) {
  const auto pool = std::make_shared<StrandPool>("pool", 1);
  StallWatch watch(absl::Seconds(30));
  watch.Watch("pool-0", pool);
  for (const int seconds : {0, 10, 1000, 2000}) {
    EXPECT_EQ(watch.Look(At(seconds)), "");
    Settle(*pool);
  }
}

TEST(StallWatchTest, AThreadThatHangsIsNamedUntilItGoesOn) {
  const auto hangs = std::make_shared<StrandPool>("a", 1);
  const auto works = std::make_shared<StrandPool>("b", 1);
  StallWatch watch(absl::Seconds(30));
  watch.Watch("a-0", hangs);
  watch.Watch("b-0", works);
  std::latch may_go(1);
  hangs->Schedule(std::make_shared<testing::FunctionStrand>([&may_go] { may_go.wait(); }));
  const auto look = [&](int seconds) {
    Settle(*works);
    return watch.Look(At(seconds));
  };
  EXPECT_EQ(look(100), "");
  EXPECT_EQ(look(129), "");
  EXPECT_EQ(look(130), "a-0");
  EXPECT_EQ(look(500), "a-0");
  may_go.count_down();
  Settle(*hangs);
  EXPECT_EQ(look(501), "");
  Settle(*hangs);
  EXPECT_EQ(look(502), "");
}

// The first look of all may come long after the start.
TEST(StallWatchTest, TimeCountsFromALook) {
  const auto pool = std::make_shared<StrandPool>("pool", 1);
  StallWatch watch(absl::Seconds(30));
  watch.Watch("pool-0", pool);
  std::latch may_go(1);
  pool->Schedule(std::make_shared<testing::FunctionStrand>([&may_go] { may_go.wait(); }));
  EXPECT_EQ(watch.Look(At(100'000)), "");
  EXPECT_EQ(watch.Look(At(100'029)), "");
  may_go.count_down();
  Settle(*pool);
}

TEST(StallWatchTest, AllStalledThreadsAreNamed) {
  const auto pool = std::make_shared<StrandPool>("pool", 1);
  StallWatch watch(absl::Seconds(1));
  watch.Watch("x", pool);
  watch.Watch("y", pool);
  std::latch may_go(1);
  pool->Schedule(std::make_shared<testing::FunctionStrand>([&may_go] { may_go.wait(); }));
  EXPECT_EQ(watch.Look(At(0)), "");
  EXPECT_EQ(watch.Look(At(1)), "x, y");
  may_go.count_down();
  Settle(*pool);
}

}  // namespace
}  // namespace lockstep::router
