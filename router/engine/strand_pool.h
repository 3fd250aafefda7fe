#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "common/mutex.h"
#include "common/named_thread.h"

namespace lockstep::router {

// A few named threads that run strands: objects whose work is never run by two threads at once. A
// strand is queued at most once, so the queue is as long as there are strands alive with work.
class StrandPool {
 public:
  class Strand {
   public:
    virtual ~Strand() = default;
    // Does what there is to do and returns; must not wait.
    virtual void RunStrand() = 0;

   private:
    friend class StrandPool;
    enum class State { kIdle, kQueued, kRunning, kRunningAgain };
    std::atomic<State> state_ = State::kIdle;
    std::atomic<StrandPool*> again_on_ = nullptr;  // while running again
  };

  // Threads are called "<name>-0", "<name>-1", ...
  StrandPool(std::string_view name, size_t num_threads);
  // Drops queued strands; a running one finishes.
  ~StrandPool();

  // RunStrand is called at least once after this call began: here, or where the strand waits
  // already. Never blocks; from any thread. A pool that running strands move to must outlive the
  // one that they come from.
  void Schedule(std::shared_ptr<Strand> strand);

 private:
  void Push(std::shared_ptr<Strand> strand);
  void RunThread();

  Mutex mutex_;
  CondVar not_empty_;
  std::deque<std::shared_ptr<Strand>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<NamedThread> threads_;
};

}  // namespace lockstep::router
