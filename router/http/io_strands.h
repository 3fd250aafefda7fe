#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "common/mutex.h"
#include "router/engine/strand_queue.h"

namespace boost::asio {
class io_context;
}

namespace lockstep::router {

// Runs strands on the threads of an io_context, between what those do for their sockets: what a
// strand makes is on its way without another thread. From Open to Close; before and afterwards they
// run on the fallback, so that calls of connections which went with the io_context still learn
// that.
class IoStrands final : public StrandRunner, public std::enable_shared_from_this<IoStrands> {
 public:
  // The fallback outlives the object.
  explicit IoStrands(StrandRunner& fallback) : fallback_(fallback) {}

  void Open(boost::asio::io_context& io, size_t num_threads);
  // Once the threads have ended, before `io` goes.
  void Close();

 private:
  void Push(std::shared_ptr<Strand> strand) override;
  void Post() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSome();

  StrandRunner& fallback_;
  Mutex mutex_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: the fallback's turn
  std::optional<StrandQueue> strands_ ABSL_GUARDED_BY(mutex_);     // once open
};

}  // namespace lockstep::router
