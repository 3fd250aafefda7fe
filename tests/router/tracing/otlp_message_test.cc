#include "router/tracing/otlp_message.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace lockstep::router {
namespace {

namespace wire = opentelemetry::proto::collector::trace::v1;

Span AnySpan() {
  Span span;
  span.trace_id.fill(0xab);
  span.span_id.fill(0xcd);
  span.name = "chat a-model";
  span.start = absl::FromUnixNanos(1'000'000'007);
  span.end = absl::FromUnixNanos(2'000'000'009);
  span.attributes = {{"text", std::string("value")},
                     {"count", int64_t{-3}},
                     {"share", 0.5},
                     {"list", std::vector<std::string>{"a", "b"}}};
  span.events = {{.name = "queued", .at = absl::FromUnixNanos(1'500'000'000), .attributes = {}}};
  span.num_dropped_events = 4;
  return span;
}

const wire::Span& OnlySpan(const wire::ExportTraceServiceRequest& message) {
  return message.resource_spans(0).scope_spans(0).spans(0);
}

TEST(OtlpMessageTest, HasWhatTheSpanHas) {
  const std::vector<Span> spans = {AnySpan()};
  const wire::ExportTraceServiceRequest message = MakeOtlpMessage(spans, "a service");
  const wire::KeyValue& service = message.resource_spans(0).resource().attributes(0);
  EXPECT_EQ(service.key(), "service.name");
  EXPECT_EQ(service.value().string_value(), "a service");
  const wire::Span& span = OnlySpan(message);
  EXPECT_EQ(span.trace_id(), std::string(16, '\xab'));
  EXPECT_EQ(span.span_id(), std::string(8, '\xcd'));
  EXPECT_EQ(span.parent_span_id(), "");
  EXPECT_EQ(span.kind(), wire::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(span.start_time_unix_nano(), 1'000'000'007);
  EXPECT_EQ(span.end_time_unix_nano(), 2'000'000'009);
  EXPECT_EQ(span.attributes(0).value().string_value(), "value");
  EXPECT_EQ(span.attributes(1).value().int_value(), -3);
  EXPECT_EQ(span.attributes(2).value().double_value(), 0.5);
  EXPECT_EQ(span.attributes(3).value().array_value().values(1).string_value(), "b");
  EXPECT_EQ(span.events(0).name(), "queued");
  EXPECT_EQ(span.events(0).time_unix_nano(), 1'500'000'000);
  EXPECT_EQ(span.dropped_events_count(), 4);
  EXPECT_FALSE(span.has_status());
  EXPECT_EQ(span.flags(), 0x101);
}

TEST(OtlpMessageTest, AParentIsRemote) {
  Span span = AnySpan();
  span.parent_span_id.fill(0x11);
  span.trace_state = "a=1";
  span.failed = true;
  const wire::ExportTraceServiceRequest message = MakeOtlpMessage({&span, 1}, "s");
  EXPECT_EQ(OnlySpan(message).parent_span_id(), std::string(8, '\x11'));
  EXPECT_EQ(OnlySpan(message).trace_state(), "a=1");
  EXPECT_EQ(OnlySpan(message).flags(), 0x301);
  EXPECT_EQ(OnlySpan(message).status().code(), wire::Status::STATUS_CODE_ERROR);
}

// The bytes of a small message, by the numbers and types of OpenTelemetry's trace.proto.
TEST(OtlpMessageTest, BytesOfASpan) {
  wire::Span span;
  span.set_trace_id("T");
  span.set_span_id("S");
  span.set_parent_span_id("P");
  span.set_name("n");
  span.set_kind(wire::Span::SPAN_KIND_SERVER);
  span.set_start_time_unix_nano(1);
  span.set_flags(0x101);
  span.mutable_status()->set_code(wire::Status::STATUS_CODE_ERROR);
  const std::string expected(
      "\x0a\x01T\x12\x01S\x22\x01P\x2a\x01n\x30\x02\x39\x01\0\0\0\0\0\0\0"
      "\x7a\x02\x18\x02\x85\x01\x01\x01\0\0",
      33);
  EXPECT_EQ(span.SerializeAsString(), expected);
}

TEST(OtlpMessageTest, OtherBytesThanAsciiDoNotSpoilABatch) {
  Span span = AnySpan();
  span.name = "chat \xff";
  span.attributes = {{"id", std::string("a\xc3z")}};
  const wire::ExportTraceServiceRequest message = MakeOtlpMessage({&span, 1}, "s");
  EXPECT_EQ(OnlySpan(message).name(), "chat ?");
  EXPECT_EQ(OnlySpan(message).attributes(0).value().string_value(), "a?z");
}

TEST(OtlpMessageTest, TimesBefore1970AreNone) {
  Span span = AnySpan();
  span.start = absl::FromUnixSeconds(-5);
  EXPECT_EQ(OnlySpan(MakeOtlpMessage({&span, 1}, "s")).start_time_unix_nano(), 0);
}

}  // namespace
}  // namespace lockstep::router
