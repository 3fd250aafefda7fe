#include "kernels/core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <numeric>
#include <vector>

#include "kernels/core/stream.h"

namespace lockstep::kernels {
namespace {

TEST(ThreadPoolTest, EveryTaskRunsOncePerRun) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool threads(num_threads);
    EXPECT_EQ(threads.num_threads(), num_threads);
    for (int num_tasks = 0; num_tasks < 60; ++num_tasks) {
      std::vector<int> counts(static_cast<size_t>(num_tasks));
      threads.Run(num_tasks, [&](int index) { ++counts[static_cast<size_t>(index)]; });
      ASSERT_EQ(counts, std::vector<int>(static_cast<size_t>(num_tasks), 1));
    }
  }
}

TEST(ThreadPoolTest, RunReturnsAfterAllTasksAreDone) {
  ThreadPool threads(4);
  for (int run = 0; run < 2000; ++run) {
    const int num_tasks = 1 + run % 11;
    std::atomic<int> num_done{0};
    threads.Run(num_tasks, [&](int) { num_done.fetch_add(1, std::memory_order_relaxed); });
    ASSERT_EQ(num_done.load(std::memory_order_relaxed), num_tasks);
  }
}

// A worker that waited longer than it spins is asleep; the next run must wake it. How long that
// takes is up to the system, so runs follow one another with pauses of very different lengths.
TEST(ThreadPoolTest, SleepingThreadsWakeUp) {
  ThreadPool threads(3);
  volatile uint64_t sink = 0;
  for (int pause = 1; pause < 2'000'000; pause *= 3) {
    for (int i = 0; i < pause; ++i) sink = sink + 1;
    std::atomic<int> num_done{0};
    threads.Run(3, [&](int) { num_done.fetch_add(1); });
    ASSERT_EQ(num_done.load(), 3);
  }
}

// As ranks do that exchange what they computed: no thread may take a second task before all are
// taken. Each task has a team of its own, which other threads use from run to run.
TEST(ThreadPoolTest, AsManyTasksAsThreadsMayWaitForEachOther) {
  constexpr int kNumTasks = 4;
  ThreadPool threads(kNumTasks);
  std::vector<std::unique_ptr<ThreadPool>> teams;
  for (int i = 0; i < kNumTasks; ++i) teams.push_back(std::make_unique<ThreadPool>(2));
  std::barrier meeting(kNumTasks);
  volatile uint64_t sink = 0;
  for (int run = 0; run < 200; ++run) {
    for (int i = 0; i < run % 5 * 50'000; ++i) sink = sink + 1;  // at times the others fall asleep
    std::atomic<int> num_done{0};
    threads.Run(kNumTasks, [&](int index) {
      meeting.arrive_and_wait();
      teams[static_cast<size_t>(index)]->Run(3, [&](int) { num_done.fetch_add(1); });
      meeting.arrive_and_wait();
    });
    ASSERT_EQ(num_done.load(), kNumTasks * 3);
  }
}

TEST(ThreadPoolTest, AnUnusedTeamEndsCleanly) {
  for (int i = 0; i < 20; ++i) ThreadPool threads(4);
}

TEST(ParallelRangesTest, CoversEveryItemOnce) {
  ThreadPool threads(3);
  const Stream streams[] = {{}, {.threads = &threads}};
  for (const Stream& stream : streams) {
    for (const int64_t num_items : {0, 1, 2, 3, 4, 100}) {
      std::vector<int> counts(static_cast<size_t>(num_items));
      ParallelRanges(stream, num_items, 2, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i) ++counts[static_cast<size_t>(i)];
      });
      EXPECT_EQ(counts, std::vector<int>(static_cast<size_t>(num_items), 1));
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
