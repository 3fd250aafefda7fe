#pragma once

#include <absl/time/time.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

#include "common/runtime/mutex.h"
#include "router/tracing/span.h"
#include "router/tracing/span_metrics.h"

namespace lockstep::router {

// Spans on their way from the threads of requests to the exporter, which takes them in batches.
// Never blocks a request: spans that do not fit are dropped and counted. Safe to use from any
// thread.
class SpanQueue {
 public:
  struct Limits {
    size_t max_spans = 2048;
    size_t max_batch_spans = 512;
    absl::Duration max_wait = absl::Seconds(1);  // until a batch is taken although it is not full
  };
  SpanQueue(const Limits& limits, const SpanMetrics& metrics)
      : limits_(limits), metrics_(metrics) {}

  // Drops the span if the queue is full, or closed.
  void Push(Span span);

  // Waits until a batch is full, until its first span has waited for `max_wait`, or until the queue
  // is closed. Empty: the queue is closed, and nothing is left.
  std::vector<Span> TakeBatch();

  // Refuses further spans. Queued spans can still be taken. Wakes TakeBatch.
  void Close();
  // Drops and counts all queued spans.
  void DropAll();

 private:
  bool BatchIsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || spans_.size() >= limits_.max_batch_spans;
  }

  const Limits limits_;
  const SpanMetrics metrics_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Span> spans_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point first_at_ ABSL_GUARDED_BY(mutex_);  // start of the wait for
                                                                            // a full batch
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::router
