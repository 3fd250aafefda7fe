#include "router/grpc/grpc_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace lockstep::router {
namespace {

class FunctionStrand final : public Strand {
 public:
  explicit FunctionStrand(std::function<void()> run) : run_(std::move(run)) {}
  void RunStrand() override { run_(); }

 private:
  const std::function<void()> run_;
};

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
  std::atomic<int> posted = 0;
  int seen = 0;  // the strand's alone
  std::latch done(1);
  const auto strand = std::make_shared<FunctionStrand>([&] {
    const int now = posted.load();
    if (now == 10'000 && seen != now) done.count_down();
    seen = now;
  });
  for (int i = 0; i < 10'000; ++i) {
    posted.fetch_add(1);
    loops.Of(0)->Schedule(strand);
  }
  done.wait();
  loops.Stop();
}

// A tag of the queue that counts how often it comes back.
class CountingTag final : public CompletionTag {
 public:
  explicit CountingTag(std::function<void()> on_complete) : on_complete_(std::move(on_complete)) {}
  void OnComplete(bool /*ok*/) override { on_complete_(); }

 private:
  const std::function<void()> on_complete_;
};

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
  CountingTag tag([&] { came.count_down(); });
  grpc::Alarm alarm;
  alarm.Set(loop.queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tag.id());
  came.wait();
  stop.store(true);
  loops.Stop();
}

TEST(GrpcLoopTest, EventsThatNeverEndDoNotKeepStrandsAway) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  loop.AddUser();
  std::atomic<bool> stop = false;
  grpc::Alarm alarms[2];  // so that one is over while the other is looked at
  std::vector<std::unique_ptr<CountingTag>> tags;
  for (grpc::Alarm& alarm : alarms) {
    const size_t index = tags.size();
    tags.push_back(std::make_unique<CountingTag>([&, index] {
      if (!stop.load()) {
        alarm.Set(loop.queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tags[index]->id());
      } else if (index == 0) {
        loop.RemoveUser();
      }
    }));
  }
  // From the loop itself, which owns the tags from then on.
  std::latch begun(1);
  loop.Schedule(std::make_shared<FunctionStrand>([&] {
    for (size_t i = 0; i < 2; ++i) {
      alarms[i].Set(loop.queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tags[i]->id());
    }
    begun.count_down();
  }));
  begun.wait();
  std::latch ran(100);
  for (int i = 0; i < 100; ++i) {
    loop.Schedule(std::make_shared<FunctionStrand>([&] { ran.count_down(); }));
  }
  ran.wait();
  stop.store(true);
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

TEST(GrpcLoopTest, StopWaitsForWhatUsesTheQueue) {
  GrpcLoops loops(1);
  GrpcLoop& loop = *loops.Of(0);
  loop.AddUser();
  std::atomic<bool> over = false;
  CountingTag tag([&] {
    over.store(true);
    loop.RemoveUser();
  });
  grpc::Alarm alarm;
  const NamedThread later(
      "later", [&] { alarm.Set(loop.queue(), gpr_inf_past(GPR_CLOCK_MONOTONIC), tag.id()); });
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

TEST(GrpcLoopTest, NumbersGoRoundTheLoops) {
  GrpcLoops loops(3);
  EXPECT_EQ(loops.all().size(), 3u);
  EXPECT_EQ(loops.Of(4), loops.all()[1]);
}

}  // namespace
}  // namespace lockstep::router
