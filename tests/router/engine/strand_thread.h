#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "common/named_thread.h"
#include "router/engine/strand_timers.h"

namespace lockstep::router::testing {

// A thread that runs strands, one after the other, and keeps their times.
class StrandThread final : public TimedStrandRunner {
 public:
  StrandThread() : thread_("strands", [this] { RunThread(); }) {}
  // Drops what waits.
  ~StrandThread() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyAll();
  }

  void ScheduleAt(std::shared_ptr<Strand> strand, StrandTimers::Time at) override {
    MutexLock lock(mutex_);
    timers_.Set(std::move(strand), at);
  }

 private:
  void Push(std::shared_ptr<Strand> strand) override {
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(strand));
    }
    changed_.NotifyAll();
  }

  void RunThread() {
    MutexLock lock(mutex_);
    while (!stopping_) {
      const auto now = std::chrono::steady_clock::now();
      auto strands = timers_.TakeDue(now);
      mutex_.unlock();
      for (auto& strand : strands) Schedule(std::move(strand));
      mutex_.lock();
      if (queue_.empty()) {
        const auto left =
            std::min<std::chrono::nanoseconds>(timers_.next() - now, std::chrono::seconds(1));
        changed_.WaitFor(mutex_, left);
        continue;
      }
      std::shared_ptr<Strand> strand = std::move(queue_.front());
      queue_.pop_front();
      mutex_.unlock();
      Run(std::move(strand));
      mutex_.lock();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Strand>> queue_ ABSL_GUARDED_BY(mutex_);
  StrandTimers timers_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

}  // namespace lockstep::router::testing
