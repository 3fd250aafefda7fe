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
#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "common/strands/strand_queue.h"
#include "common/strands/strand_timers.h"

namespace lockstep::router {

// A thread that does everything for the calls to workers of its completion queue: it polls their
// sockets, runs the strands of their replicas and learns that their writes are over. Why no other
// thread of the process polls sockets of gRPC is told in docs/decisions/0004.
class GrpcLoop final : public TimedStrandRunner {
 public:
  // "grpc-<index>" is the thread's name; it runs from now on.
  explicit GrpcLoop(uint32_t index);
  // Stopped.
  ~GrpcLoop() override = default;

  // Once every call is over, or will be on its own: returns when it is, and the thread has ended.
  // Strands that are scheduled later are dropped.
  void Stop();

  void ScheduleAt(std::shared_ptr<Strand> strand,
                  std::chrono::steady_clock::time_point at) override;

  grpc::CompletionQueue* queue() { return &queue_; }
  // Something of which the queue has tags, or will have. Add from any thread, remove on the loop's.
  void AddUser() { ++num_users_; }
  void RemoveUser() { --num_users_; }

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
  grpc::Alarm strands_alarm_;  // set only when another thread has the queue ask for a taker
  grpc::Alarm stop_alarm_;
  MethodTag<GrpcLoop> strands_tag_{this, &GrpcLoop::OnStrands};
  MethodTag<GrpcLoop> stop_tag_{this, &GrpcLoop::OnStop};
  std::atomic<size_t> num_users_ = 0;

  // The thread's alone.
  bool stopping_ = false;
  bool has_strands_ = false;
  size_t num_events_in_a_row_ = 0;  // since some strands ran
  size_t num_runs_in_a_row_ = 0;    // of some strands, since the sockets were looked at
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

  // After everything that uses the queues; once more does nothing.
  void Stop();

  const std::vector<std::shared_ptr<GrpcLoop>>& all() const { return loops_; }
  // Of what has this number among its kind.
  const std::shared_ptr<GrpcLoop>& Of(uint32_t index) const {
    return loops_[index % loops_.size()];
  }

 private:
  std::vector<std::shared_ptr<GrpcLoop>> loops_;
  bool stopped_ = false;
};

}  // namespace lockstep::router
