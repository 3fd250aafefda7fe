#include "common/runtime/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, ExcludesOtherThreads) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 10000; ++i) {
        MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 40000);
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  MutexLock lock(mutex);
  bool locked = true;
  std::thread([&] { locked = mutex.try_lock(); }).join();
  EXPECT_FALSE(locked);
}

TEST(CondVarTest, NotifyWakesAWaiter) {
  Counter counter;
  std::thread waiter([&counter] {
    MutexLock lock(counter.mutex);
    while (counter.value == 0) counter.changed.Wait(counter.mutex);
    counter.value = 2;
  });
  {
    MutexLock lock(counter.mutex);
    counter.value = 1;
  }
  counter.changed.NotifyAll();
  waiter.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 2);
}

TEST(CondVarTest, WaitForReportsThatTheTimeRanOut) {
  Counter counter;
  MutexLock lock(counter.mutex);
  // A spurious wake-up may come first; nobody notifies, so the time runs out in the end.
  while (counter.changed.WaitFor(counter.mutex, std::chrono::milliseconds(1))) {
  }
  EXPECT_EQ(counter.value, 0);
}

}  // namespace
}  // namespace lockstep
