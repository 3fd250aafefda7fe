#include "router/tracing/span_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/runtime/wait_until.h"

namespace lockstep::router {

void SpanQueue::Push(Span span) {
  bool wakes = false;
  {
    MutexLock lock(mutex_);
    if (closed_) return metrics_.CountDropped(SpanDrop::kShutdown);
    if (spans_.size() >= limits_.max_spans) return metrics_.CountDropped(SpanDrop::kQueueFull);
    if (spans_.empty()) first_at_ = std::chrono::steady_clock::now();
    spans_.push_back(std::move(span));
    // The exporter need not wake for the spans in between.
    wakes = spans_.size() == 1 || spans_.size() == limits_.max_batch_spans;
  }
  if (wakes) changed_.NotifyOne();
}

std::vector<Span> SpanQueue::TakeBatch() {
  MutexLock lock(mutex_);
  while (spans_.empty() && !closed_) changed_.Wait(mutex_);
  const auto due = first_at_ + absl::ToChronoNanoseconds(limits_.max_wait);
  while (!BatchIsDue() && WaitUntil(mutex_, changed_, due)) {
  }
  const auto count = static_cast<std::ptrdiff_t>(std::min(spans_.size(), limits_.max_batch_spans));
  std::vector<Span> batch(std::make_move_iterator(spans_.begin()),
                          std::make_move_iterator(spans_.begin() + count));
  spans_.erase(spans_.begin(), spans_.begin() + count);
  if (!spans_.empty()) first_at_ = std::chrono::steady_clock::now();
  return batch;
}

void SpanQueue::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.NotifyAll();
}

void SpanQueue::DropAll() {
  MutexLock lock(mutex_);
  metrics_.CountDropped(SpanDrop::kShutdown, spans_.size());
  spans_.clear();
}

}  // namespace lockstep::router
