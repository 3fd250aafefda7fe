#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/strands/strand_pool.h"
#include "router/strands/strand_timers.h"

namespace lockstep::router::testing {

// A thread that runs strands, one after the other, and another one that keeps their times.
class StrandThread final : public TimedStrandRunner {
 public:
  StrandThread() : clock_("times", [this] { KeepTimes(); }) {}
  // Drops what waits.
  ~StrandThread() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
    clock_.join();
  }

  void ScheduleAt(std::shared_ptr<Strand> strand, StrandTimers::Time at) override {
    {
      MutexLock lock(mutex_);
      timers_.Set(std::move(strand), at);
    }
    changed_.NotifyAll();
  }

 private:
  void Push(std::shared_ptr<Strand> strand) override { PushTo(pool_, std::move(strand)); }

  void KeepTimes() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      const auto now = std::chrono::steady_clock::now();
      for (auto& strand : timers_.TakeDue(now)) Schedule(std::move(strand));
      changed_.WaitFor(mutex_, std::min<std::chrono::nanoseconds>(timers_.next() - now,
                                                                  std::chrono::seconds(1)));
    }
  }

  Mutex mutex_;
  CondVar changed_;
  StrandTimers timers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  StrandPool pool_{"strands", 1};
  NamedThread clock_;
};

}  // namespace lockstep::router::testing
