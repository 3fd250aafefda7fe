#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/grpc/completion_tag.h"
#include "common/grpc/polled_queue.h"
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/strands/strand_queue.h"
#include "common/strands/strand_timers.h"

namespace lockstep::router {

// One thread and its completion queue, for calls to workers and to a collector of traces. The
// thread polls the sockets of these calls, runs the strands of the workers' replicas, and handles
// finished writes. No other thread of the process polls gRPC's sockets; docs/decisions/0004 tells
// why.
class GrpcLoop final : public TimedStrandRunner, public PolledQueue {
 public:
  // Starts the thread, which is named "grpc-<index>".
  explicit GrpcLoop(uint32_t index);
  // Call Stop before.
  ~GrpcLoop() override = default;

  // Call when every call is over or will soon end by itself. Waits until all calls are over and the
  // thread has ended. Strands that are scheduled later are dropped.
  void Stop();

  void ScheduleAt(std::shared_ptr<Strand> strand,
                  std::chrono::steady_clock::time_point at) override;

  grpc::CompletionQueue* queue() override { return &queue_; }
  void AddUser() override { ++num_users_; }
  void RemoveUser() override { --num_users_; }

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void Run();
  bool NextEvent(void** id, bool* ok);
  grpc::CompletionQueue::NextStatus WaitForEvent(void** id, bool* ok);
  bool RunsNext();
  void RunStrands();
  void ScheduleDue();
  void OnStrands(bool ok);
  void OnStop(bool ok);
  bool Close();

  grpc::CompletionQueue queue_;
  grpc::Alarm strands_alarm_;  // rung when another thread's Push needs a taker
  grpc::Alarm stop_alarm_;
  MethodTag<GrpcLoop> strands_tag_{this, &GrpcLoop::OnStrands};
  MethodTag<GrpcLoop> stop_tag_{this, &GrpcLoop::OnStop};
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
