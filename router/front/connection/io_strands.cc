#include "router/front/connection/io_strands.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

// What they make leaves together, once for each connection, before the next ones run.
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
      // A wake that was put off may be long in coming: who puts nothing off wakes the thread for
      // all, and who does so wakes it at the end, if nobody did before.
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
  // Closed since: what waited has run elsewhere.
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
  // Behind what the sockets have for this thread by now.
  if (!strands_.Leave()) Post();
}

}  // namespace lockstep::router
