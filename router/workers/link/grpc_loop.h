#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/rpc/poller.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "router/strands/strand_queue.h"
#include "router/strands/strand_timers.h"

namespace lockstep::router {

// One thread for workers. It polls the sockets of the workers' leases, and runs the strands of the
// workers' replicas. docs/decisions/0005 tells why both are on one thread.
class GrpcLoop final : public TimedStrandRunner {
 public:
  // Starts the thread, which is named "grpc-<index>".
  explicit GrpcLoop(uint32_t index);
  // Call Stop before.
  ~GrpcLoop() override = default;

  // Call when every user is gone or will soon go by itself. Waits until all users are gone and the
  // thread has ended. Strands that are scheduled later are dropped.
  void Stop();

  void ScheduleAt(std::shared_ptr<Strand> strand,
                  std::chrono::steady_clock::time_point at) override;

  Poller& poller() { return poller_; }
  // A user has a connection at the poller, or will have one. Add users from any thread; remove them
  // on the loop's thread.
  void AddUser() { ++num_users_; }
  void RemoveUser() { --num_users_; }

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void Run();
  bool RunsNext();
  void RunStrands();
  void ScheduleDue();
  bool Close();

  Poller poller_;
  std::atomic<size_t> num_users_ = 0;

  // Only the loop's thread uses these.
  bool stopping_ = false;
  bool has_strands_ = false;
  size_t num_events_in_a_row_ = 0;  // since strands last ran
  size_t num_runs_in_a_row_ = 0;    // of strands, since the last look at the sockets
  StrandTimers timers_;

  Mutex mutex_;
  StrandQueue strands_ ABSL_GUARDED_BY(mutex_){1};
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  NamedThread thread_;
};

// The loops of a router.
class GrpcLoops {
 public:
  explicit GrpcLoops(uint32_t num_threads);
  GrpcLoops(const GrpcLoops&) = delete;
  GrpcLoops& operator=(const GrpcLoops&) = delete;
  ~GrpcLoops() { Stop(); }

  // Call after everything that uses the queues has stopped. A second call does nothing.
  void Stop();

  const std::vector<std::shared_ptr<GrpcLoop>>& all() const { return loops_; }
  // The loop for the object with this index among objects of its kind.
  const std::shared_ptr<GrpcLoop>& Of(uint32_t index) const {
    return loops_[index % loops_.size()];
  }

 private:
  std::vector<std::shared_ptr<GrpcLoop>> loops_;
  bool stopped_ = false;
};

}  // namespace lockstep::router
