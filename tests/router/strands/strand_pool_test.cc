#include "router/strands/strand_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/router/strands/function_strand.h"

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

class OwnedStrand final : public Strand {
 public:
  OwnedStrand(std::string_view owner, size_t num_bytes, std::function<void()> run)
      : owner_(owner), num_bytes_(num_bytes), run_(std::move(run)) {}
  void RunStrand() override { run_(); }
  std::string_view owner() const override { return owner_; }
  size_t num_work_bytes() const override { return num_bytes_; }

 private:
  const std::string_view owner_;
  const size_t num_bytes_;
  const std::function<void()> run_;
};

constexpr size_t kLargeBytes = size_t{1} << 20;

// The large ones would wait for ever.
TEST(StrandPoolTest, LargeStrandsLeaveAThreadForSmallOnes) {
  std::latch small_ran(20);
  std::latch large_ran(6);
  std::atomic<int> num_large = 0;
  std::atomic<int> most_large = 0;
  StrandPool pool("test", 3);
  for (int i = 0; i < 6; ++i) {
    pool.Schedule(std::make_shared<OwnedStrand>(i % 2 == 0 ? "a" : "b", kLargeBytes, [&] {
      most_large.store(std::max(most_large.load(), num_large.fetch_add(1) + 1));
      small_ran.wait();
      num_large.fetch_sub(1);
      large_ran.count_down();
    }));
  }
  for (int i = 0; i < 20; ++i) {
    pool.Schedule(std::make_shared<OwnedStrand>("a", 100, [&] { small_ran.count_down(); }));
  }
  large_ran.wait();
  EXPECT_LE(most_large.load(), 2);
}

// The owner's first large strand ends only after the other's ran.
TEST(StrandPoolTest, AnOwnersLargeStrandsLeaveAThreadForAnothersLargeOne) {
  std::latch begun(1), modest_ran(1), greedy_ran(20);
  StrandPool pool("test", 3);
  for (int i = 0; i < 20; ++i) {
    pool.Schedule(std::make_shared<OwnedStrand>("greedy", kLargeBytes, [&, i] {
      if (i == 0) begun.count_down();
      modest_ran.wait();
      greedy_ran.count_down();
    }));
  }
  begun.wait();
  pool.Schedule(
      std::make_shared<OwnedStrand>("modest", kLargeBytes, [&] { modest_ran.count_down(); }));
  greedy_ran.wait();
}

// There are three places for large strands. "a" and "b" run one each, so their second ones wait,
// and two threads sleep. When the first of "a" ends, its thread takes the second of "b", because
// "a" had more time. Then the second of "a" may run too, and a thread must wake for it.
TEST(StrandPoolTest, TheEndOfALargeStrandMayAllowTwo) {
  std::latch begun(2), may_end(1), b_may_end(1), second_ran(2), last(1);
  StrandPool pool("test", 4);
  const auto schedule = [&](const char* owner, size_t num_bytes, std::function<void()> run) {
    pool.Schedule(std::make_shared<OwnedStrand>(owner, num_bytes, std::move(run)));
  };
  schedule("a", kLargeBytes, [&] {
    begun.count_down();
    may_end.wait();
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  // It is expected to take a few milliseconds.
  schedule("b", FairQueue::kMaxSmallBytes + 1, [&] {
    begun.count_down();
    b_may_end.wait();
  });
  begun.wait();
  for (const char* const owner : {"a", "b"}) {
    schedule(owner, kLargeBytes, [&] {
      second_ran.count_down();
      last.wait();  // keeps its thread
    });
  }
  may_end.count_down();
  second_ran.wait();
  last.count_down();
  b_may_end.count_down();
}

TEST(StrandPoolTest, ASingleThreadRunsLargeStrandsToo) {
  std::latch ran(2);
  StrandPool pool("test", 1);
  for (int i = 0; i < 2; ++i) {
    pool.Schedule(std::make_shared<OwnedStrand>("a", kLargeBytes, [&] { ran.count_down(); }));
  }
  ran.wait();
}

TEST(StrandPoolTest, AnOwnersBacklogDoesNotHoldUpAnothers) {
  std::latch begun(1), may_go(1), modest_ran(1);
  std::atomic<int> num_greedy = 0;
  int num_before = -1;
  StrandPool pool("test", 1);
  pool.Schedule(std::make_shared<OwnedStrand>("greedy", kLargeBytes, [&] {
    begun.count_down();
    may_go.wait();
  }));
  begun.wait();
  for (int i = 0; i < 50; ++i) {
    pool.Schedule(
        std::make_shared<OwnedStrand>("greedy", kLargeBytes, [&] { num_greedy.fetch_add(1); }));
  }
  pool.Schedule(std::make_shared<OwnedStrand>("modest", kLargeBytes, [&] {
    num_before = num_greedy.load();
    modest_ran.count_down();
  }));
  may_go.count_down();
  modest_ran.wait();
  EXPECT_LE(num_before, 1);
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
