#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::router {

// Valid ids are not all zeros.
using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// The trace of a request, from the client's headers "traceparent" and "tracestate" (W3C Trace
// Context, level 1: https://www.w3.org/TR/trace-context-1/).
struct TraceContext {
  TraceId trace_id = {};
  SpanId parent_span_id = {};    // the id of the client's span
  bool sampled = false;          // the client records its part of the trace
  std::string trace_state = {};  // data of the client's tracing system; passed on unread
};

inline constexpr size_t kMaxTraceStateBytes = 512;

// Nullopt if the header is empty or malformed; the request then counts as one without a header.
// Versions above 00 may have more text after the four parts of version 00.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

// True if the text is a valid "tracestate": a list of at most 32 members and kMaxTraceStateBytes.
// Does not look for repeated keys.
bool IsTraceState(std::string_view text);

// Parses both headers. An invalid `tracestate` is dropped. Several headers "tracestate" are one
// list: join their values with commas.
std::optional<TraceContext> ParseTraceContext(std::string_view traceparent,
                                              std::string_view tracestate);

// Lower-case hexadecimal digits, as logs and traceparent have them.
std::string HexOf(std::span<const uint8_t> id);

}  // namespace lockstep::router
