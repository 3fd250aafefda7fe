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
