#pragma once

#include <memory>

#include "common/runtime/mutex.h"
#include "common/strands/strand_queue.h"

namespace boost::asio {
class io_context;
}

namespace lockstep::router {

// Runs strands on the thread of an io_context, between what that does for its sockets: what a
// strand makes is on its way without another thread. From Open to Close; before and afterwards they
// run on the fallback, so that calls of connections which went with the io_context still learn
// that.
class IoStrands final : public StrandRunner, public std::enable_shared_from_this<IoStrands> {
 public:
  // The fallback outlives the object.
  explicit IoStrands(StrandRunner& fallback) : fallback_(fallback) {}

  // `io` has one thread.
  void Open(boost::asio::io_context& io);
  // Once the thread has ended, before `io` goes.
  void Close();

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void WakeThread() override;
  void Post() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSome();

  StrandRunner& fallback_;
  Mutex mutex_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: the fallback's turn
  StrandQueue strands_ ABSL_GUARDED_BY(mutex_){1};
  // The taker that strands_ counts on was not posted yet.
  bool wake_put_off_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
