#include "router/http/io_strands.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep::router {

void IoStrands::Open(boost::asio::io_context& io, size_t num_threads) {
  MutexLock lock(mutex_);
  io_ = &io;
  strands_.emplace(num_threads);
}

void IoStrands::Close() {
  std::vector<std::shared_ptr<Strand>> left;
  {
    MutexLock lock(mutex_);
    io_ = nullptr;
    left = strands_->Take(SIZE_MAX);
  }
  for (std::shared_ptr<Strand>& strand : left) PushTo(fallback_, std::move(strand));
}

void IoStrands::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (io_ != nullptr) {
      if (strands_->Push(std::move(strand))) Post();
      return;
    }
  }
  PushTo(fallback_, std::move(strand));
}

void IoStrands::Post() {
  boost::asio::post(*io_, [self = shared_from_this()] { self->RunSome(); });
}

void IoStrands::RunSome() {
  std::vector<std::shared_ptr<Strand>> strands;
  {
    MutexLock lock(mutex_);
    strands = strands_->Take(StrandQueue::kStrandsPerTaker);
  }
  for (std::shared_ptr<Strand>& strand : strands) Run(std::move(strand));
  MutexLock lock(mutex_);
  // Behind what the sockets have for this thread by now.
  if (!strands_->Leave()) Post();
}

}  // namespace lockstep::router
