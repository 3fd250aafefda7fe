#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::router {

// Not all zeros.
using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

// Which trace a request belongs to, as its client says it in the headers "traceparent" and
// "tracestate" (W3C Trace Context, level 1: https://www.w3.org/TR/trace-context-1/).
struct TraceContext {
  TraceId trace_id = {};
  SpanId parent_span_id = {};    // of the client's span
  bool sampled = false;          // the client records its part of the trace
  std::string trace_state = {};  // of the client's tracing system; passed on, never read
};

inline constexpr size_t kMaxTraceStateBytes = 512;

// Nullopt for everything that is not a valid traceparent, an empty text included: a client with a
// bad header is a client without one. A version above 00 may have more behind the four parts of
// version 00.
std::optional<TraceContext> ParseTraceparent(std::string_view header);

// True if the text is a list as the header "tracestate" has it, of at most 32 members and
// kMaxTraceStateBytes. Does not look for keys that come twice.
bool IsTraceState(std::string_view text);

// Both headers at once. `tracestate` is dropped if it is not valid. Several headers of that name
// are one list: their values, joined by commas.
std::optional<TraceContext> ParseTraceContext(std::string_view traceparent,
                                              std::string_view tracestate);

// Lower-case hexadecimal digits, as logs and traceparent have them.
std::string HexOf(std::span<const uint8_t> id);

}  // namespace lockstep::router
