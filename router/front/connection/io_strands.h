#pragma once

#include <memory>

#include "common/runtime/mutex.h"
#include "router/strands/strand_queue.h"

namespace boost::asio {
class io_context;
}

namespace lockstep::router {

// Runs strands on the thread of an io_context, between its socket events. Output of a strand then
// reaches its socket without a change of thread. Active from Open to Close. Before and after,
// strands run on the fallback, so that calls of destroyed connections can finish.
class IoStrands final : public StrandRunner, public std::enable_shared_from_this<IoStrands> {
 public:
  // The fallback must outlive the object.
  explicit IoStrands(StrandRunner& fallback) : fallback_(fallback) {}

  // `io` must have one thread.
  void Open(boost::asio::io_context& io);
  // Call after the thread has ended and before `io` is destroyed.
  void Close();

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void WakeThread() override;
  void Post() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSome();

  StrandRunner& fallback_;
  Mutex mutex_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: use the fallback
  StrandQueue strands_ ABSL_GUARDED_BY(mutex_){1};
  // True: strands_ expects a RunSome, and it is not posted yet.
  bool wake_put_off_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
