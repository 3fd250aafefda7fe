#include "router/front/connection/io_strands.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

// Strands that run before the sockets get their turn. Their output is then sent together, one write
// for each connection.
constexpr size_t kStrandsAtATime = 128;

}  // namespace

void IoStrands::Open(boost::asio::io_context& io) {
  MutexLock lock(mutex_);
  io_ = &io;
}

void IoStrands::Close() {
  std::vector<std::shared_ptr<Strand>> left;
  {
    MutexLock lock(mutex_);
    io_ = nullptr;
    left = strands_.Take(SIZE_MAX);
  }
  for (std::shared_ptr<Strand>& strand : left) PushTo(fallback_, std::move(strand));
}

void IoStrands::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (io_ != nullptr) {
      const bool first = strands_.Push(std::move(strand));
      // A deferred wake may come late. A push that cannot defer wakes the thread at once, for all
      // strands. A push that can defer leaves it to WakeThread.
      if (!first && !wake_put_off_) return;
      wake_put_off_ = PutOffWake(shared_from_this());
      if (!wake_put_off_) Post();
      return;
    }
  }
  PushTo(fallback_, std::move(strand));
}

void IoStrands::WakeThread() {
  MutexLock lock(mutex_);
  // If Close came first, the waiting strands have run elsewhere.
  if (io_ != nullptr && std::exchange(wake_put_off_, false)) Post();
}

void IoStrands::Post() {
  boost::asio::post(*io_, [self = shared_from_this()] { self->RunSome(); });
}

void IoStrands::RunSome() {
  std::vector<std::shared_ptr<Strand>> strands;
  {
    MutexLock lock(mutex_);
    strands = strands_.Take(kStrandsAtATime);
  }
  for (std::shared_ptr<Strand>& strand : strands) Run(std::move(strand));
  MutexLock lock(mutex_);
  // Posted, so that waiting socket events run first.
  if (!strands_.Leave()) Post();
}

}  // namespace lockstep::router
