#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::router {

class StrandRunner;

// An object whose work is never run by two threads at once.
class Strand {
 public:
  virtual ~Strand() = default;
  // Does what there is to do and returns; must not wait.
  virtual void RunStrand() = 0;
  // Goes before those that are not, where a runner tells them apart. Never changes.
  virtual bool urgent() const { return false; }
  // Whose work it is, and about how many bytes of it there are; for runners that share their time
  // fairly. Neither changes while the strand waits.
  virtual std::string_view owner() const { return {}; }
  virtual size_t num_work_bytes() const { return 0; }

 private:
  friend class StrandRunner;
  enum class State { kIdle, kQueued, kRunning, kRunningAgain };
  std::atomic<State> state_ = State::kIdle;
  std::atomic<StrandRunner*> again_on_ = nullptr;  // while running again
};

// Threads that run strands. A strand waits at most once, so as many wait as are alive and have
// work.
class StrandRunner {
 public:
  virtual ~StrandRunner() = default;

  // RunStrand is called at least once after this call began: here, or where the strand waits
  // already. Never blocks; from any thread. A runner that running strands move to must outlive the
  // one that they come from.
  void Schedule(std::shared_ptr<Strand> strand);

  // While one lives, runners that can do so put off waking their threads for what is scheduled
  // here, until Wake or its end: the first of many strands wakes nobody who would find little to
  // do, sleep, and have to be woken again. Of the thread that made it. They nest: Wake of each
  // wakes for all of them, the end of the outermost one as well.
  class WakeLater {
   public:
    WakeLater();
    WakeLater(const WakeLater&) = delete;
    WakeLater& operator=(const WakeLater&) = delete;
    ~WakeLater();

    void Wake();

   private:
    friend class StrandRunner;
    std::vector<std::shared_ptr<StrandRunner>> asleep_;  // of the outermost one; each once
    WakeLater& outermost_;
  };

 protected:
  // True: a WakeLater lives here and is going to call the runner's WakeThread. False: the runner
  // must wake its thread now.
  static bool PutOffWake(std::shared_ptr<StrandRunner> runner);
  // Of runners that use PutOffWake.
  virtual void WakeThread() {}
  // Has one of its threads pass the strand to Run, later; or drops it, when it is closed.
  virtual void Push(std::shared_ptr<Strand> strand) = 0;
  static void PushTo(StrandRunner& runner, std::shared_ptr<Strand> strand) {
    runner.Push(std::move(strand));
  }
  static void Run(std::shared_ptr<Strand> strand);
};

// One that can also wait for a time.
class TimedStrandRunner : public StrandRunner {
 public:
  // By the strand that is running here: it is scheduled at `at`, instead of when it said last; max:
  // at no time. Up to a few milliseconds late.
  virtual void ScheduleAt(std::shared_ptr<Strand> strand,
                          std::chrono::steady_clock::time_point at) = 0;
};

}  // namespace lockstep::router
