#include "router/engine/strand_pool.h"

#include <fmt/format.h>

#include <utility>

namespace lockstep::router {

StrandPool::StrandPool(std::string_view name, size_t num_threads) {
  threads_.reserve(num_threads);
  for (size_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this] { RunThread(); });
  }
}

StrandPool::~StrandPool() {
  std::deque<std::shared_ptr<Strand>> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  not_empty_.NotifyAll();
  threads_.clear();
}

void StrandPool::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(strand));
  }
  not_empty_.NotifyOne();
}

void StrandPool::RunThread() {
  for (;;) {
    std::shared_ptr<Strand> strand;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) not_empty_.Wait(mutex_);
      if (stopping_) return;
      strand = std::move(queue_.front());
      queue_.pop_front();
    }
    Run(std::move(strand));
  }
}

}  // namespace lockstep::router
