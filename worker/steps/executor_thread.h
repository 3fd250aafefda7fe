#pragma once

#include <absl/functional/any_invocable.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <variant>

#include "common/runtime/bounded_queue.h"
#include "common/runtime/named_thread.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// Runs a StepRunner on a thread of its own ("executor"). Steps and changes of lease go through one
// bounded queue, so a lease's first step starts when everything before it has ended. Owns the queue
// and the thread. Knows nothing of streams. While steps are in progress, the thread polls for their
// results and for more work. Otherwise it sleeps. All methods are safe to call from any thread.
// Callbacks run on the executor thread and must not block.
class ExecutorThread {
 public:
  // The timings in `result` are complete up to this moment.
  using StepDone = absl::AnyInvocable<void(v1::StepResult result, const StepStats& stats)>;
  using LeaseDone = absl::AnyInvocable<void()>;

  // `runner` must outlive the object, and only this object may use it. `queue_capacity` bounds the
  // waiting steps and lease changes.
  ExecutorThread(StepRunner& runner, size_t queue_capacity);
  ExecutorThread(const ExecutorThread&) = delete;
  ExecutorThread& operator=(const ExecutorThread&) = delete;
  // Runs the queued work, then joins.
  ~ExecutorThread();

  // Begins a new lease. From now on, waiting steps of other epochs are skipped, and their callbacks
  // get a refusal (ABORTED). Returns false if the queue is full.
  bool BeginLease(uint64_t epoch, LeaseDone done);
  // Ends a lease: skips its waiting steps and drops its slots. Changes nothing if another lease has
  // begun. Returns false if the queue is full.
  bool EndLease(uint64_t epoch, LeaseDone done);
  // A step that arrived on the stream of lease `lease_epoch`. The step itself may name another
  // epoch. Returns false if the queue is full.
  bool Submit(uint64_t lease_epoch, v1::StepRequest step, StepDone done);

  // Slots with running sequences, after the latest step.
  uint32_t num_live_slots() const { return num_live_slots_.load(std::memory_order_relaxed); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Step {
    uint64_t lease_epoch;
    TimePoint arrival;
    v1::StepRequest request;
    StepDone done;
  };
  struct LeaseChange {
    uint64_t epoch;
    bool begins;
    LeaseDone done;
  };
  using Item = std::variant<Step, LeaseChange>;
  // A step that was given to the runner.
  struct Pending {
    TimePoint arrival;
    TimePoint start;
    StepDone done;
  };

  void Loop();
  void Run(Step& step);
  void Run(LeaseChange& change);
  // Delivers every result that is ready.
  void DeliverResults();

  StepRunner& runner_;
  BoundedQueue<Item> queue_;
  std::atomic<uint64_t> wanted_epoch_{0};  // only steps of this lease are worth running; 0: none
  std::atomic<uint32_t> num_live_slots_{0};
  uint64_t leased_epoch_ = 0;    // executor thread only
  std::deque<Pending> pending_;  // executor thread only; as many as runner_.num_pending()
  NamedThread thread_;
};

}  // namespace lockstep::worker
