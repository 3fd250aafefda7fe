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

// An object with work that only one thread runs at a time.
class Strand {
 public:
  virtual ~Strand() = default;
  // Does all available work and returns. Must not wait.
  virtual void RunStrand() = 0;
  // Urgent strands go before others, if the runner tells them apart. Never changes.
  virtual bool urgent() const { return false; }
  // The owner of the work, and about how many bytes of work there are. For runners that share their
  // time fairly. Neither changes while the strand waits.
  virtual std::string_view owner() const { return {}; }
  virtual size_t num_work_bytes() const { return 0; }

 private:
  friend class StrandRunner;
  enum class State { kIdle, kQueued, kRunning, kRunningAgain };
  std::atomic<State> state_ = State::kIdle;
  std::atomic<StrandRunner*> again_on_ = nullptr;  // while running again
};

// Threads that run strands. A strand waits at most once at a time, so at most as many strands wait
// as are alive and have work.
class StrandRunner {
 public:
  virtual ~StrandRunner() = default;

  // RunStrand will run at least once after this call began: on this runner, or on the runner where
  // the strand already waits. Never blocks. Safe to call from any thread. If running strands move
  // to another runner, it must outlive the runner that they come from.
  void Schedule(std::shared_ptr<Strand> strand);

  // While an object of this class lives, runners that can do so put off waking their threads for
  // strands that this thread schedules, until Wake or the object's end. Otherwise the first of many
  // strands would wake a thread that finds little to do, sleeps, and must be woken again. An object
  // belongs to the thread that made it. Objects nest: Wake of any of them, or the end of the
  // outermost one, wakes for all of them.
  class WakeLater {
   public:
    WakeLater();
    WakeLater(const WakeLater&) = delete;
    WakeLater& operator=(const WakeLater&) = delete;
    ~WakeLater();

    void Wake();

   private:
    friend class StrandRunner;
    std::vector<std::shared_ptr<StrandRunner>> asleep_;  // outermost only; each once
    WakeLater& outermost_;
  };

 protected:
  // True: this thread has a WakeLater, which will call the runner's WakeThread. False: the runner
  // must wake its thread now.
  static bool PutOffWake(std::shared_ptr<StrandRunner> runner);
  // For runners that use PutOffWake.
  virtual void WakeThread() {}
  // Makes one of the runner's threads pass the strand to Run later. Drops the strand if the runner
  // is closed.
  virtual void Push(std::shared_ptr<Strand> strand) = 0;
  static void PushTo(StrandRunner& runner, std::shared_ptr<Strand> strand) {
    runner.Push(std::move(strand));
  }
  static void Run(std::shared_ptr<Strand> strand);
};

// A runner that can also schedule a strand at a given time.
class TimedStrandRunner : public StrandRunner {
 public:
  // Called by the strand that is running here. Schedules it at `at`, up to a few milliseconds late.
  // This replaces the time that it gave before; max: no time.
  virtual void ScheduleAt(std::shared_ptr<Strand> strand,
                          std::chrono::steady_clock::time_point at) = 0;
};

}  // namespace lockstep::router
