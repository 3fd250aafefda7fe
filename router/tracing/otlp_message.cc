#include "router/tracing/otlp_message.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <variant>

#include "common/version.h"

namespace lockstep::router {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

constexpr uint32_t kFlagSampled = 0x01;
constexpr uint32_t kFlagHasIsRemote = 0x100;
constexpr uint32_t kFlagIsRemote = 0x200;

// Ids, models and addresses are plain ASCII. Other text stays readable.
std::string Ascii(std::string_view text) {
  std::string ascii(text);
  std::ranges::replace_if(ascii, [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, '?');
  return ascii;
}

void SetValue(const std::string& value, wire::AnyValue& to) { to.set_string_value(Ascii(value)); }
void SetValue(int64_t value, wire::AnyValue& to) { to.set_int_value(value); }
void SetValue(double value, wire::AnyValue& to) { to.set_double_value(value); }
void SetValue(const std::vector<std::string>& values, wire::AnyValue& to) {
  wire::ArrayValue& array = *to.mutable_array_value();
  for (const std::string& value : values) SetValue(value, *array.add_values());
}

void AddAttribute(const SpanAttribute& attribute, wire::KeyValue& to) {
  to.set_key(std::string(attribute.key));
  std::visit([&to](const auto& value) { SetValue(value, *to.mutable_value()); }, attribute.value);
}

template <size_t N>
std::string Bytes(const std::array<uint8_t, N>& id) {
  return std::string(id.begin(), id.end());
}

uint64_t UnixNanos(absl::Time time) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixNanos(time), 0));
}

void AddSpan(const Span& span, wire::Span& to) {
  to.set_trace_id(Bytes(span.trace_id));
  to.set_span_id(Bytes(span.span_id));
  const bool has_parent = span.parent_span_id != SpanId{};
  if (has_parent) to.set_parent_span_id(Bytes(span.parent_span_id));
  to.set_trace_state(span.trace_state);
  to.set_flags(kFlagSampled | kFlagHasIsRemote | (has_parent ? kFlagIsRemote : 0));
  to.set_name(Ascii(span.name));
  to.set_kind(wire::Span::SPAN_KIND_SERVER);
  to.set_start_time_unix_nano(UnixNanos(span.start));
  to.set_end_time_unix_nano(UnixNanos(span.end));
  for (const SpanAttribute& attribute : span.attributes) {
    AddAttribute(attribute, *to.add_attributes());
  }
  for (const SpanEvent& event : span.events) {
    wire::Span::Event& added = *to.add_events();
    added.set_time_unix_nano(UnixNanos(event.at));
    added.set_name(std::string(event.name));
    for (const SpanAttribute& attribute : event.attributes) {
      AddAttribute(attribute, *added.add_attributes());
    }
  }
  to.set_dropped_events_count(span.num_dropped_events);
  if (span.failed) to.mutable_status()->set_code(wire::Status::STATUS_CODE_ERROR);
}

}  // namespace

wire::ExportTraceServiceRequest MakeOtlpMessage(std::span<const Span> spans,
                                                const std::string& service_name) {
  wire::ExportTraceServiceRequest message;
  wire::ResourceSpans& group = *message.add_resource_spans();
  AddAttribute({"service.name", service_name}, *group.mutable_resource()->add_attributes());
  AddAttribute({"service.version", std::string(Version())},
               *group.mutable_resource()->add_attributes());
  wire::ScopeSpans& scope = *group.add_scope_spans();
  scope.mutable_scope()->set_name("lockstep");
  scope.mutable_scope()->set_version(std::string(Version()));
  for (const Span& span : spans) AddSpan(span, *scope.add_spans());
  return message;
}

}  // namespace lockstep::router
