#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "router/tracing/trace_context.h"

namespace lockstep::router {

// True if a trace that begins here is recorded. `ratio` is the share of recorded traces, from 0 to
// 1. The answer depends only on the id, so all services with this rule record the same traces. The
// rule is OpenTelemetry's "consistent probability sampling": the last 56 bits of the id are the
// random number (https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling).
inline bool IsSampled(const TraceId& trace_id, double ratio) {
  constexpr size_t kRandomBytes = 7;
  uint64_t random = 0;
  for (size_t i = trace_id.size() - kRandomBytes; i < trace_id.size(); ++i) {
    random = random << 8 | trace_id[i];
  }
  // A whole number, because a double cannot hold every 56-bit number.
  const auto rejected = static_cast<uint64_t>((1.0 - ratio) * std::ldexp(1.0, 8 * kRandomBytes));
  return random >= rejected;
}

}  // namespace lockstep::router
