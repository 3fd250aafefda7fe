#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "router/tracing/trace_context.h"

namespace lockstep::router {

using SpanValue = std::variant<std::string, int64_t, double, std::vector<std::string>>;

struct SpanAttribute {
  std::string_view key;  // a literal, never copied
  SpanValue value;
};

struct SpanEvent {
  std::string_view name;  // a literal
  absl::Time at;
  std::vector<SpanAttribute> attributes;
};

// One request in a trace, once it is over. Never holds prompts, generated text or keys.
struct Span {
  TraceId trace_id = {};
  SpanId span_id = {};
  SpanId parent_span_id = {};  // all zeros: the trace begins here
  std::string trace_state;
  std::string name;
  absl::Time start;  // time of day; start and end differ by monotonic time
  absl::Time end;
  std::vector<SpanAttribute> attributes;
  std::vector<SpanEvent> events;
  uint32_t num_dropped_events = 0;
  bool failed = false;  // not by a fault of the client
};

}  // namespace lockstep::router
