#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/wait_until.h"

namespace lockstep {

// A closable multi-producer, multi-consumer queue of at most `capacity` items. Producers never
// block; they must handle a full queue. Safe to use from any thread.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when the queue is full or closed; `item` is then untouched.
  bool TryPush(T& item) {
    {
      MutexLock lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.NotifyOne();
    return true;
  }
  bool TryPush(T&& item) { return TryPush(item); }

  // Waits for an item; nullopt once the queue is closed and empty.
  std::optional<T> Pop() {
    MutexLock lock(mutex_);
    while (items_.empty() && !closed_) not_empty_.Wait(mutex_);
    return TakeFront();
  }

  // Waits at most `timeout`; nullopt when nothing came.
  std::optional<T> PopFor(absl::Duration timeout) {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
    MutexLock lock(mutex_);
    while (items_.empty() && !closed_ && WaitUntil(mutex_, not_empty_, deadline)) {
    }
    return TakeFront();
  }

  std::optional<T> TryPop() {
    MutexLock lock(mutex_);
    return TakeFront();
  }

  // Everything queued, in order, without waiting.
  std::vector<T> Drain() {
    MutexLock lock(mutex_);
    std::vector<T> all(std::make_move_iterator(items_.begin()),
                       std::make_move_iterator(items_.end()));
    items_.clear();
    return all;
  }

  // Later pushes fail. Queued items can still be popped.
  void Close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    not_empty_.NotifyAll();
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> TakeFront() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  mutable Mutex mutex_;
  CondVar not_empty_;
  std::deque<T> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
