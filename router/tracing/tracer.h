#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "router/tracing/request_trace.h"
#include "router/tracing/span_queue.h"
#include "router/tracing/trace_context.h"

namespace lockstep::router {

// Decides which requests are recorded, and begins their spans. Safe to use from any thread.
class Tracer {
 public:
  // `sample_ratio`: the share of traces that begin here and are recorded, from 0 to 1. `model` is
  // the name that clients use. The clock must outlive the object.
  Tracer(double sample_ratio, std::string model, const Clock& clock,
         std::shared_ptr<SpanQueue> queue);

  // Null if the request is not recorded. A request with a parent is recorded if its parent is.
  // `name` is the span's name until SetName.
  std::shared_ptr<RequestTrace> Begin(const std::optional<TraceContext>& parent, std::string name);

 private:
  // Never all zeros.
  template <typename Id>
  Id DrawId();

  const double sample_ratio_;
  const std::string model_;
  const Clock& clock_;
  const std::shared_ptr<SpanQueue> queue_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
