// What replicas note of a request in its trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/router/engine/replica_fleet_fixture.h"
#include "tests/router/tracing/span_recorder.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::EventsOf;
using ::lockstep::router::testing::NumberAttribute;
using ::lockstep::router::testing::ReplicaFleetTest;
using ::lockstep::router::testing::SpanRecorder;
using ::lockstep::router::testing::TextAttribute;
using ::testing::Contains;
using ::testing::ElementsAre;

class ReplicaTraceTest : public ReplicaFleetTest {
 protected:
  std::unique_ptr<Client> SubmitRecorded(std::vector<TokenId> prompt, uint32_t max_new_tokens) {
    trace_ = recorder_.tracer().Begin(std::nullopt, "a request");
    return Submit(std::move(prompt), max_new_tokens);
  }
  Span End() {
    trace_->End(absl::StatusCode::kOk, clock_.Now());
    return recorder_.Next();
  }

  SpanRecorder recorder_{clock_};
};

TEST_F(ReplicaTraceTest, ARequestStartsAndHasAFirstToken) {
  Start(1);
  Connect(0);
  const auto client = SubmitRecorded({1, 2, 3}, 4);
  RunUntilIdle();
  ExpectComplete(*client);
  const Span span = End();
  EXPECT_THAT(EventsOf(span), ElementsAre("started fake:0", "first_token"));
  EXPECT_EQ(TextAttribute(span, "lockstep.worker"), "fake:0");
}

TEST_F(ReplicaTraceTest, ALostWorkerAndTheNextAreSeen) {
  Start(2);
  Connect(0);
  const auto client = SubmitRecorded({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  Connect(1);
  Lose(0);
  RunUntilIdle();
  ExpectComplete(*client);
  const Span span = End();
  EXPECT_THAT(EventsOf(span),
              ElementsAre("started fake:0", "first_token", "worker_lost fake:0", "moved fake:1"));
  EXPECT_EQ(TextAttribute(span, "lockstep.worker"), "fake:1");
}

TEST_F(ReplicaTraceTest, ARequestThatOnlyWaitedLostNothing) {
  config_.scheduler.max_running_sequences = 1;
  Start(2);
  Connect(0);
  const auto running = Submit({1, 2, 3}, 8);
  const auto waiting = SubmitRecorded({4, 5}, 5);
  RunSteps(0, 1);
  Connect(1);
  Lose(0);
  RunUntilIdle();
  ExpectComplete(*waiting);
  EXPECT_THAT(EventsOf(End()), ElementsAre("moved fake:1", "started fake:1", "first_token"));
}

TEST_F(ReplicaTraceTest, APreemptionIsSeenAndTheReaderIsNotToldOfIt) {
  Start(1);
  Connect(0);
  // The pool has blocks for 256 tokens.
  const auto first = Submit({1, 2, 3}, 150);
  const auto second = SubmitRecorded({4, 5, 6}, 150);
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*second);
  const Span span = End();
  EXPECT_THAT(EventsOf(span), Contains("preempted"));
  EXPECT_GE(NumberAttribute(span, "lockstep.preemptions"), 1);
  ExpectClean();
}

}  // namespace
}  // namespace lockstep::router
