// Headers of strangers that name a trace: the first line is a traceparent, the rest a tracestate.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/check.h"
#include "router/tracing/trace_context.h"

namespace lockstep::router {
namespace {

void Check(std::string_view traceparent, std::string_view tracestate) {
  const std::optional<TraceContext> context = ParseTraceContext(traceparent, tracestate);
  if (!context.has_value()) return;
  const TraceContext& read = *context;
  LOCKSTEP_CHECK(read.trace_id != TraceId{} && read.parent_span_id != SpanId{}, "an id of zeros");
  LOCKSTEP_CHECK(read.trace_state.empty() || read.trace_state == tracestate, "another state");
  LOCKSTEP_CHECK(read.trace_state.size() <= kMaxTraceStateBytes, "a state that is too large");
  for (const char c : read.trace_state) {
    LOCKSTEP_CHECK(c == '\t' || (c >= 0x20 && c <= 0x7e), "a state that no header may have");
  }
  // What was read, written again, is read alike.
  const std::string again = "00-" + HexOf(read.trace_id) + "-" + HexOf(read.parent_span_id) + "-" +
                            (read.sampled ? "01" : "00");
  LOCKSTEP_CHECK(traceparent.substr(2, 51) == std::string_view(again).substr(2, 51), "other ids");
  const std::optional<TraceContext> twice = ParseTraceContext(again, read.trace_state);
  LOCKSTEP_CHECK(twice.has_value() && twice->trace_id == read.trace_id &&
                     twice->parent_span_id == read.parent_span_id &&
                     twice->sampled == read.sampled && twice->trace_state == read.trace_state,
                 "other parts the second time");
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const std::string_view rest =
      end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  lockstep::router::Check(text.substr(0, end), rest);
  return 0;
}
