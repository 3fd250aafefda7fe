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

void StrandPool::Schedule(std::shared_ptr<Strand> strand) {
  using State = Strand::State;
  State state = strand->state_.load();
  for (;;) {
    switch (state) {
      case State::kQueued:
      case State::kRunningAgain:
        return;
      case State::kIdle:
        if (!strand->state_.compare_exchange_weak(state, State::kQueued)) continue;
        Push(std::move(strand));
        return;
      case State::kRunning:
        strand->again_on_.store(this);
        if (!strand->state_.compare_exchange_weak(state, State::kRunningAgain)) continue;
        return;
    }
  }
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
  using State = Strand::State;
  for (;;) {
    std::shared_ptr<Strand> strand;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) not_empty_.Wait(mutex_);
      if (stopping_) return;
      strand = std::move(queue_.front());
      queue_.pop_front();
    }
    strand->state_.store(State::kRunning);
    strand->RunStrand();
    State state = State::kRunning;
    if (!strand->state_.compare_exchange_strong(state, State::kIdle)) {
      // Scheduled while it ran: to the end of the queue, so that no strand keeps a thread.
      StrandPool* const pool = strand->again_on_.load();
      strand->state_.store(State::kQueued);
      pool->Push(std::move(strand));
    }
  }
}

}  // namespace lockstep::router
