#include "router/workers/link/grpc_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "tests/router/strands/function_strand.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::AwaitARunAfterEverySchedule;
using ::lockstep::router::testing::FunctionStrand;

TEST(GrpcLoopTest, RunsEveryStrandOnItsOneThread) {
  constexpr int kNumStrands = 1000;
  GrpcLoops loops(1);
  std::latch done(kNumStrands);
  std::vector<std::thread::id> threads(kNumStrands);
  for (int i = 0; i < kNumStrands; ++i) {
    loops.Of(0)->Schedule(std::make_shared<FunctionStrand>([&, i] {
      threads[static_cast<size_t>(i)] = std::this_thread::get_id();
      done.count_down();
    }));
  }
  done.wait();
  EXPECT_NE(threads[0], std::this_thread::get_id());
  for (const std::thread::id& thread : threads) EXPECT_EQ(thread, threads[0]);
  loops.Stop();
}

TEST(GrpcLoopTest, RunsAtLeastOnceAfterEverySchedule) {
  GrpcLoops loops(1);
  AwaitARunAfterEverySchedule(*loops.Of(0));
}

TEST(GrpcLoopTest, StrandsThatNeverEndDoNotKeepEventsAway) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  std::atomic<bool> stop = false;
  std::shared_ptr<FunctionStrand> greedy;
  greedy = std::make_shared<FunctionStrand>([&] {
    if (!stop.load()) loop.Schedule(greedy);
  });
  loop.Schedule(greedy);
  std::latch came(1);
  loop.poller().Post([&] { came.count_down(); });
  came.wait();
  stop.store(true);
  loops.Stop();
}

// Events of the loop's poller that follow each other without end.
class EndlessEvents {
 public:
  explicit EndlessEvents(GrpcLoop& loop) : loop_(loop) { loop.AddUser(); }
  // On the loop, whose the events are from then on.
  void Begin() {
    loop_.poller().Post([this] { OnEvent(); });
  }
  void End() { ending_.store(true); }

 private:
  void OnEvent() { ending_.load() ? loop_.RemoveUser() : Begin(); }

  GrpcLoop& loop_;
  std::atomic<bool> ending_ = false;
};

TEST(GrpcLoopTest, EventsThatNeverEndDoNotKeepStrandsAway) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  EndlessEvents events(loop);
  std::latch begun(1);
  loop.Schedule(std::make_shared<FunctionStrand>([&] {
    events.Begin();
    begun.count_down();
  }));
  begun.wait();
  std::latch ran(100);
  for (int i = 0; i < 100; ++i) {
    loop.Schedule(std::make_shared<FunctionStrand>([&] { ran.count_down(); }));
  }
  ran.wait();
  events.End();
  loops.Stop();
}

TEST(GrpcLoopTest, EventsThatNeverEndDoNotKeepTimesAway) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  EndlessEvents events(loop);
  std::latch ran(2);
  std::shared_ptr<FunctionStrand> strand;
  strand = std::make_shared<FunctionStrand>([&] {
    if (ran.try_wait()) return;
    ran.count_down();
    if (ran.try_wait()) return;
    events.Begin();
    loop.ScheduleAt(strand, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
  });
  loop.Schedule(strand);
  ran.wait();
  events.End();
  loops.Stop();
}

TEST(GrpcLoopTest, StopsAlsoWhileStrandsWait) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  std::latch running(1), go_on(1);
  std::atomic<int> num_run = 0;
  loop.Schedule(std::make_shared<FunctionStrand>([&] {
    running.count_down();
    go_on.wait();
  }));
  running.wait();
  for (int i = 0; i < 100; ++i) {
    loop.Schedule(std::make_shared<FunctionStrand>([&] { num_run.fetch_add(1); }));
  }
  {
    const NamedThread stopper("stopper", [&] { loops.Stop(); });
    go_on.count_down();
  }
  EXPECT_EQ(num_run.load(), 100);
}

TEST(GrpcLoopTest, StopWaitsForItsUsers) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  loop.AddUser();
  std::atomic<bool> over = false;
  const NamedThread later("later", [&] {
    loop.poller().Post([&] {
      over.store(true);
      loop.RemoveUser();
    });
  });
  loops.Stop();
  EXPECT_TRUE(over.load());
}

TEST(GrpcLoopTest, DropsWhatIsScheduledOnceItHasStopped) {
  GrpcLoops loops(2);
  loops.Stop();
  const auto never = std::make_shared<FunctionStrand>([] { ADD_FAILURE(); });
  loops.Of(1)->Schedule(never);
  EXPECT_EQ(never.use_count(), 1);
}

TEST(GrpcLoopTest, RunsAStrandAgainAtTheTimeItSaidLast) {
  using Clock = std::chrono::steady_clock;
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  constexpr std::chrono::milliseconds kPause(20);
  std::vector<Clock::time_point> runs;
  Clock::time_point asked_for;
  std::latch done(1);
  std::shared_ptr<FunctionStrand> strand;
  strand = std::make_shared<FunctionStrand>([&] {
    runs.push_back(Clock::now());
    if (runs.size() == 2) {
      loop.ScheduleAt(strand, runs.back());
      loop.ScheduleAt(strand, Clock::time_point::max());
      return done.count_down();
    }
    asked_for = runs.back() + kPause;
    loop.ScheduleAt(strand, runs.back() + std::chrono::hours(1));
    loop.ScheduleAt(strand, asked_for);
  });
  loop.Schedule(strand);
  done.wait();
  // Until the loop has waited for another time, later than the one that was taken back.
  std::latch later(2);
  std::shared_ptr<FunctionStrand> other;
  other = std::make_shared<FunctionStrand>([&] {
    later.count_down();
    if (!later.try_wait()) loop.ScheduleAt(other, Clock::now());
  });
  loop.Schedule(other);
  later.wait();
  loops.Stop();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_GE(runs[1], asked_for);
}

TEST(GrpcLoopTest, UrgentStrandsGoBeforeThoseThatCameEarlier) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  std::vector<int> order;
  // All from the loop itself, so that none runs before the last one is there.
  loop.Schedule(std::make_shared<FunctionStrand>([&] {
    for (int i = 0; i < 100; ++i) {
      loop.Schedule(std::make_shared<FunctionStrand>([&order, i] { order.push_back(i); }));
    }
    loop.Schedule(
        std::make_shared<FunctionStrand>([&order] { order.push_back(-1); }, /*urgent=*/true));
  }));
  loops.Stop();
  ASSERT_EQ(order.size(), 101u);
  EXPECT_EQ(order[0], -1);
  EXPECT_EQ(order[1], 0);
}

TEST(GrpcLoopTest, NumbersGoRoundTheLoops) {
  GrpcLoops loops(3);
  EXPECT_EQ(loops.all().size(), 3u);
  EXPECT_EQ(loops.Of(4), loops.all()[1]);
}

}  // namespace
}  // namespace lockstep::router
