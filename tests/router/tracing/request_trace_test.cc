#include "router/tracing/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/runtime/clock.h"
#include "router/tracing/tracer.h"
#include "tests/router/tracing/span_recorder.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::EventsOf;
using ::lockstep::router::testing::FindAttribute;
using ::lockstep::router::testing::NumberAttribute;
using ::lockstep::router::testing::TextAttribute;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kSampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kUnsampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

class RequestTraceTest : public ::testing::Test {
 protected:
  RequestTraceTest() { clock_.SetTimeOfDay(absl::FromUnixSeconds(1000)); }

  std::shared_ptr<RequestTrace> Begin(double ratio = 1, const char* parent = "") {
    Tracer tracer(ratio, "a-model", clock_, queue_);
    return tracer.Begin(ParseTraceContext(parent, "a=1"), "a request");
  }
  Instant After(int milliseconds) const { return clock_.Now() + absl::Milliseconds(milliseconds); }
  // The spans of requests that have ended. No span comes after that.
  std::vector<Span> Ended() {
    queue_->Close();
    return queue_->TakeBatch();
  }
  Span OnlyEnded() {
    std::vector<Span> spans = Ended();
    EXPECT_EQ(spans.size(), 1);
    return spans.empty() ? Span() : std::move(spans.front());
  }
  template <typename Value>
  static Value Get(const Span& span, std::string_view key) {
    const SpanValue* const value = FindAttribute(span, key);
    if (value == nullptr || !std::holds_alternative<Value>(*value)) {
      ADD_FAILURE() << key;
      return Value();
    }
    return std::get<Value>(*value);
  }

  FakeClock clock_{Instant::After(absl::Hours(1))};
  prometheus::Registry registry_;
  SpanMetrics metrics_{registry_, "a-model"};
  std::shared_ptr<SpanQueue> queue_ = std::make_shared<SpanQueue>(SpanQueue::Limits(), metrics_);
};

TEST_F(RequestTraceTest, ARequestWithoutAParentBeginsATrace) {
  Begin()->End(absl::StatusCode::kOk, After(5));
  const Span span = OnlyEnded();
  EXPECT_NE(span.trace_id, TraceId{});
  EXPECT_NE(span.span_id, SpanId{});
  EXPECT_EQ(span.parent_span_id, SpanId{});
  EXPECT_EQ(span.trace_state, "");
  EXPECT_EQ(span.name, "a request");
  EXPECT_EQ(span.start, absl::FromUnixSeconds(1000));
  EXPECT_EQ(span.end - span.start, absl::Milliseconds(5));
  EXPECT_FALSE(span.failed);
  EXPECT_EQ(TextAttribute(span, "gen_ai.request.model"), "a-model");
}

TEST_F(RequestTraceTest, AParentDecidesAndTheRatioDoesNot) {
  EXPECT_EQ(Begin(1, kUnsampled), nullptr);
  EXPECT_EQ(Begin(0), nullptr);
  const std::shared_ptr<RequestTrace> trace = Begin(0, kSampled);
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
  trace->End(absl::StatusCode::kOk, After(1));
  const Span span = OnlyEnded();
  EXPECT_EQ(HexOf(span.trace_id), trace->trace_id());
  EXPECT_EQ(HexOf(span.parent_span_id), "00f067aa0ba902b7");
  EXPECT_NE(span.span_id, span.parent_span_id);
  EXPECT_EQ(span.trace_state, "a=1");
}

TEST_F(RequestTraceTest, IdsDiffer) {
  Begin()->End(absl::StatusCode::kOk, After(1));
  Begin()->End(absl::StatusCode::kOk, After(1));
  const std::vector<Span> spans = Ended();
  ASSERT_EQ(spans.size(), 2);
  EXPECT_NE(spans[0].trace_id, spans[1].trace_id);
  EXPECT_NE(spans[0].span_id, spans[1].span_id);
}

TEST_F(RequestTraceTest, PhasesAreEventsAndDurations) {
  const auto trace = Begin();
  trace->OnQueued(10, After(100));
  trace->OnStarted("worker:1", 8, After(300));
  trace->OnFirstToken(After(700));
  trace->OnTokens(3);
  trace->OnFinish("stop", 2);  // the text of the third was cut off
  trace->EndCall(absl::StatusCode::kOk, After(1500));
  const Span span = OnlyEnded();
  EXPECT_THAT(EventsOf(span), ElementsAre("queued", "started worker:1", "first_token"));
  EXPECT_EQ(span.events[1].at - span.start, absl::Milliseconds(300));
  EXPECT_DOUBLE_EQ(Get<double>(span, "lockstep.queue_seconds"), 0.2);
  EXPECT_DOUBLE_EQ(Get<double>(span, "lockstep.prefill_seconds"), 0.4);
  EXPECT_DOUBLE_EQ(Get<double>(span, "lockstep.decode_seconds"), 0.8);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.input_tokens"), 10);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.output_tokens"), 2);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.cache_read.input_tokens"), 8);
  EXPECT_EQ(TextAttribute(span, "lockstep.worker"), "worker:1");
  EXPECT_THAT(Get<std::vector<std::string>>(span, "gen_ai.response.finish_reasons"),
              ElementsAre("stop"));
  EXPECT_EQ(FindAttribute(span, "error.type"), nullptr);
  EXPECT_EQ(FindAttribute(span, "lockstep.preemptions"), nullptr);
}

TEST_F(RequestTraceTest, OnlyTheFirstTokenOfAllSequencesIsAnEvent) {
  const auto trace = Begin();
  trace->OnQueued(1, After(1));
  trace->OnStarted("worker:1", 0, After(2));
  for (int sample = 0; sample < 2; ++sample) trace->OnFirstToken(After(10 + sample));
  trace->EndCall(absl::StatusCode::kOk, After(20));
  const Span span = OnlyEnded();
  EXPECT_THAT(EventsOf(span), ElementsAre("queued", "started worker:1", "first_token"));
  EXPECT_DOUBLE_EQ(Get<double>(span, "lockstep.prefill_seconds"), 0.008);
}

TEST_F(RequestTraceTest, TroubleWithWorkersIsSeen) {
  const auto trace = Begin();
  trace->OnQueued(1, After(1));
  trace->OnStarted("a:1", 0, After(2));
  trace->OnPreempted(After(3));
  trace->OnWorkerLost("a:1", After(4));
  trace->OnMoved("b:2", After(5));
  trace->OnTokens(7);
  trace->EndCall(absl::StatusCode::kUnavailable, After(6));
  const Span span = OnlyEnded();
  EXPECT_THAT(EventsOf(span),
              ElementsAre("queued", "started a:1", "preempted", "worker_lost a:1", "moved b:2"));
  EXPECT_EQ(TextAttribute(span, "lockstep.worker"), "b:2");
  EXPECT_EQ(NumberAttribute(span, "lockstep.preemptions"), 1);
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.output_tokens"), 7);
  EXPECT_EQ(TextAttribute(span, "error.type"), "UNAVAILABLE");
  EXPECT_EQ(FindAttribute(span, "lockstep.prefill_seconds"), nullptr);
  EXPECT_TRUE(span.failed);
}

TEST_F(RequestTraceTest, TheClientsFaultIsNoFailure) {
  Begin()->End(absl::StatusCode::kInvalidArgument, After(1));
  const Span span = OnlyEnded();
  EXPECT_EQ(TextAttribute(span, "error.type"), "INVALID_ARGUMENT");
  EXPECT_FALSE(span.failed);
  EXPECT_EQ(FindAttribute(span, "gen_ai.usage.input_tokens"), nullptr);
}

TEST_F(RequestTraceTest, SeveralCallsAreOneSpan) {
  const auto trace = Begin();
  trace->SetNumCalls(3);
  for (int i = 0; i < 3; ++i) {
    trace->Set({{"lockstep.request.id", std::string("id-") + std::to_string(i)}});
    trace->OnQueued(2, After(1 + i));
    trace->OnFinish("length", 5);
  }
  trace->EndCall(absl::StatusCode::kOk, After(10));
  trace->EndCall(absl::StatusCode::kAborted, After(11));
  trace->EndCall(absl::StatusCode::kInternal, After(12));
  const Span span = OnlyEnded();
  EXPECT_EQ(TextAttribute(span, "lockstep.request.id"), "id-0");
  EXPECT_EQ(NumberAttribute(span, "gen_ai.usage.input_tokens"), 6);
  EXPECT_EQ(TextAttribute(span, "error.type"), "ABORTED");
  EXPECT_EQ(span.end - span.start, absl::Milliseconds(12));
}

TEST_F(RequestTraceTest, NothingCountsAfterTheEnd) {
  const auto trace = Begin();
  trace->End(absl::StatusCode::kCancelled, After(1));
  trace->OnStarted("a:1", 0, After(2));
  trace->EndCall(absl::StatusCode::kOk, After(3));
  const Span span = OnlyEnded();
  EXPECT_THAT(EventsOf(span), IsEmpty());
  EXPECT_EQ(TextAttribute(span, "error.type"), "CANCELLED");
}

TEST_F(RequestTraceTest, WhatNobodyEndsIsCancelled) {
  auto trace = Begin();
  trace->OnQueued(1, After(40));
  trace.reset();
  const Span span = OnlyEnded();
  EXPECT_EQ(TextAttribute(span, "error.type"), "CANCELLED");
  EXPECT_EQ(span.end - span.start, absl::Milliseconds(40));
}

TEST_F(RequestTraceTest, EventsAreBounded) {
  const auto trace = Begin();
  for (int i = 0; i < 100; ++i) trace->OnPreempted(After(i));
  trace->End(absl::StatusCode::kOk, After(101));
  const Span span = OnlyEnded();
  EXPECT_EQ(span.events.size() + span.num_dropped_events, 100);
  EXPECT_EQ(span.events.size(), 64);
  EXPECT_EQ(NumberAttribute(span, "lockstep.preemptions"), 100);
}

}  // namespace
}  // namespace lockstep::router
