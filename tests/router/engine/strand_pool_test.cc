#include "router/engine/strand_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/router/engine/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::AwaitARunAfterEverySchedule;
using ::lockstep::router::testing::FunctionStrand;

TEST(StrandPoolTest, RunsAtLeastOnceAfterEverySchedule) {
  StrandPool pool("test", 2);
  AwaitARunAfterEverySchedule(pool);
}

TEST(StrandPoolTest, NeverRunsAStrandTwiceAtOnce) {
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> posted = 0;
  std::latch saw_all(1);
  bool told = false;  // the strand's alone
  StrandPool pool("test", 4);
  const auto strand = std::make_shared<FunctionStrand>([&] {
    if (inside.fetch_add(1) != 0) overlaps.fetch_add(1);
    if (posted.load() == 8'000 && !std::exchange(told, true)) saw_all.count_down();
    inside.fetch_sub(1);
  });
  {
    std::vector<NamedThread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back("poster", [&] {
        for (int i = 0; i < 2'000; ++i) {
          posted.fetch_add(1);
          pool.Schedule(strand);
        }
      });
    }
  }
  saw_all.wait();
  EXPECT_EQ(overlaps.load(), 0);
}

TEST(StrandPoolTest, AStrandThatSchedulesItselfDoesNotStarveOthers) {
  std::atomic<bool> stop = false;
  std::latch other_ran(1);
  std::shared_ptr<FunctionStrand> greedy;
  StrandPool pool("test", 1);
  greedy = std::make_shared<FunctionStrand>([&] {
    if (!stop.load()) pool.Schedule(greedy);
  });
  pool.Schedule(greedy);
  const auto other = std::make_shared<FunctionStrand>([&] { other_ran.count_down(); });
  pool.Schedule(other);
  other_ran.wait();
  stop.store(true);
}

TEST(StrandPoolTest, AStrandMovesToAnotherPool) {
  std::thread::id first_thread, second_thread;
  std::latch done(1);
  std::shared_ptr<FunctionStrand> strand;
  StrandPool second("second", 1);
  StrandPool first("first", 1);
  strand = std::make_shared<FunctionStrand>([&] {
    if (first_thread == std::thread::id()) {
      first_thread = std::this_thread::get_id();
      second.Schedule(strand);
    } else {
      second_thread = std::this_thread::get_id();
      done.count_down();
    }
  });
  first.Schedule(strand);
  done.wait();
  EXPECT_NE(first_thread, second_thread);
}

TEST(StrandPoolTest, DropsQueuedStrandsWhenDestroyed) {
  const auto never = std::make_shared<FunctionStrand>([] {});
  {
    StrandPool pool("test", 1);
    pool.Schedule(never);
  }
  EXPECT_EQ(never.use_count(), 1);
}

}  // namespace
}  // namespace lockstep::router
