#include "router/strands/strand_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep::router {

StrandPool::StrandPool(std::string_view name, size_t num_threads)
    : max_large_running_(std::max<size_t>(num_threads, 2) - 1) {
  threads_.reserve(num_threads);
  for (size_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back(fmt::format("{}-{}", name, i), [this] { RunThread(); });
  }
}

StrandPool::~StrandPool() {
  std::vector<std::shared_ptr<Strand>> dropped;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped = queue_.TakeAll();
  }
  not_empty_.NotifyAll();
  threads_.clear();
}

void StrandPool::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    queue_.Push(std::move(strand));
  }
  not_empty_.NotifyOne();
}

FairQueue::Large StrandPool::LargeAllowed() const {
  const size_t num_places = max_large_running_ - num_large_running_;
  if (num_places == 0) return FairQueue::Large::kNone;
  const bool is_last_of_several = num_places == 1 && max_large_running_ > 1;
  return is_last_of_several ? FairQueue::Large::kOfNewOwners : FairQueue::Large::kAll;
}

FairQueue::Turn StrandPool::Next() {
  FairQueue::Turn turn = queue_.Pop(LargeAllowed());
  if (turn.strand != nullptr) {
    ++num_running_;
    num_large_running_ += turn.large;
  } else if (num_running_ == 0) {
    queue_.Rest();
  }
  return turn;
}

void StrandPool::RunThread() {
  for (;;) {
    FairQueue::Turn turn;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && (turn = Next()).strand == nullptr) not_empty_.Wait(mutex_);
      if (stopping_) return;
    }
    const auto begin = std::chrono::steady_clock::now();
    Run(std::move(turn.strand));
    const auto taken = std::chrono::steady_clock::now() - begin;
    // This thread looks next, and so finds a strand that had to wait for this one. The end of a
    // large strand may allow a second one: by its place, and because its owner runs none any more.
    MutexLock lock(mutex_);
    queue_.Finish(turn, taken);
    --num_running_;
    num_large_running_ -= turn.large;
    if (turn.large && !queue_.empty()) not_empty_.NotifyOne();
  }
}

}  // namespace lockstep::router
