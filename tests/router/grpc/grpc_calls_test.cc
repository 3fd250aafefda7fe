#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "router/grpc/grpc_services.h"
#include "router/serving/calls/text_places.h"
#include "router/strands/strand_pool.h"
#include "tests/router/front/counting_signal.h"
#include "tests/router/grpc/grpc_calls_fixture.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/router/serving/test_tenants.h"
#include "tests/router/strands/function_strand.h"

// What gRPC calls hold, and for how long. The test is the connection.
namespace lockstep::testing {
namespace {

using router::StreamHandler;
using ::testing::HasSubstr;

TEST_F(GrpcCallsTest, WhatAMessageIsParsedIntoIsBoundedBeforeIt) {
  StartAll();
  std::string messages;
  for (int i = 0; i < 1025; ++i) messages += std::string("\x0a\0", 2);
  const std::string chat = std::string("\x2a\x82\x10", 3) + messages;
  const Status status = StatusOf(Ask("Generate", chat));
  EXPECT_EQ(status.code, Code(grpc::StatusCode::INVALID_ARGUMENT));
  EXPECT_THAT(status.message,
              HasSubstr("chat.messages: expected at most 1024 messages, got 1025 or"));
}

TEST_F(GrpcCallsTest, WhatAMessageIsParsedIntoIsCountedBeforeIt) {
  StartAll(/*memory_bytes=*/size_t{2} << 20);
  v1::GenerateRequest request = TextRequest("", 5);
  request.set_truncate_prompt_tokens(10);
  for (int i = 0; i < 300'000; ++i) request.mutable_token_ids()->add_ids('x');
  ASSERT_LT(request.ByteSizeLong(), size_t{400} << 10) << "the bytes alone have room";
  const Status status = StatusOf(Ask("Generate", request));
  EXPECT_EQ(status.code, Code(grpc::StatusCode::RESOURCE_EXHAUSTED));
  Eventually("its bytes are gone", [&] { return memory_->held_bytes() < kLittle; });
}

TEST_F(GrpcCallsTest, ARequestIsLetGoOfOnceItIsSubmitted) {
  StartAll();
  HoldForwards();
  const Call call = Ask("Generate", LongPrompt());
  Eventually("the request is with the engine",
             [&] { return router_->engine().replica_status().live_requests == 1; });
  Eventually("its message is gone", [&] { return memory_->held_bytes() < kLittle; });
  call.handler->OnClosed();
  ReleaseForwards();
  ExpectEverythingBack();
}

TEST_F(GrpcCallsTest, TokensThatWaitForASlowClientAreCounted) {
  StartAll();
  v1::GenerateRequest request = TextRequest("Hello", 3000);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_output()->set_logprobs(3);
  // The connection takes nothing: what is not made into messages stays where the tokens came.
  const Call call = Run(request);
  constexpr size_t kMessageBytes = 32 << 10;  // that wait, at most
  constexpr size_t kBytesPerToken = sizeof(router::TokenLogprobs);
  EXPECT_GT(memory_->held_bytes(), 2000 * kBytesPerToken + kMessageBytes);
  call.handler->OnClosed();
  Eventually("they are given back", [this] { return memory_->held_bytes() == 0; });
}

TEST_F(GrpcCallsTest, TokensThatHaveNoRoomEndTheirRequest) {
  // A call with its messages fits in, the tokens behind them do not.
  StartAll(size_t{64} << 10);
  v1::GenerateRequest request = TextRequest("Hello", 3000);
  request.mutable_stop()->set_ignore_eos(true);
  request.mutable_output()->set_logprobs(3);
  const Call call = Run(request);
  EXPECT_LE(memory_->held_bytes(), size_t{64} << 10);
  const Status status = Drain(call);
  EXPECT_EQ(status.code, Code(grpc::StatusCode::RESOURCE_EXHAUSTED));
  EXPECT_EQ(status.message, "no room for the output that waits");
  call.handler->OnClosed();
  ExpectEverythingBack();
}

TEST_F(GrpcCallsTest, AnAnswerWhoseEndHasNoRoomHasASpanThatFailed) {
  tracer_ = &recorder_.tracer();
  StartAll();
  HoldForwards();
  v1::GenerateRequest request = LongPrompt();  // so that one sees when its bytes are gone
  request.mutable_stop()->set_max_tokens(1);
  const Call call = Ask("Generate", request);
  Eventually("its message is gone", [&] {
    return router_->engine().replica_status().live_requests == 1 && memory_->held_bytes() < kLittle;
  });
  // The message that the request has begun takes 29 bytes. It may wait already, or come now. There
  // is room for it and for the token, but not for the last message, which takes 66.
  constexpr size_t kRoom = 48;
  router::ByteBudget::Share others(*memory_);
  others.ResizeAnyway(kAmple - memory_->held_bytes() - kRoom);
  ReleaseForwards();
  EXPECT_EQ(StatusOf(call).message, "too many bytes of other calls are in transit");
  EXPECT_EQ(router::testing::TextAttribute(recorder_.Next(), "error.type"), "RESOURCE_EXHAUSTED");
  call.handler->OnClosed();
}

TEST_F(GrpcCallsTest, ARefusedRequestIsLetGoOfWhoeverReadsTheAnswer) {
  StartAll();
  v1::GenerateRequest request = LongPrompt();
  request.mutable_sampling()->set_top_p(7);
  const Call call = Ask("Generate", request);
  call.signal->Await();
  Eventually("its message is gone", [&] { return memory_->held_bytes() < kLittle; });
  EXPECT_EQ(StatusOf(call).code, Code(grpc::StatusCode::INVALID_ARGUMENT));
}

TEST_F(GrpcCallsTest, ShortMethodsTakeShortMessages) {
  StartAll();
  for (const char* const method : {"GetModel", "ListModels"}) {
    const Status status = StatusOf(Ask(method, std::string((64 << 10) + 1, 'x')));
    EXPECT_EQ(status.code, Code(grpc::StatusCode::RESOURCE_EXHAUSTED)) << method;
    EXPECT_THAT(status.message, HasSubstr("65537 vs. 65536"));
  }
  v1::AbortRequest abort;
  for (int i = 0; i < 1024; ++i) abort.add_request_ids(std::string(256, 'x'));
  EXPECT_EQ(StatusOf(Ask("Abort", abort)).code, "0");
  EXPECT_EQ(StatusOf(Ask("Abort", std::string(300 << 10, 'x'))).code,
            Code(grpc::StatusCode::RESOURCE_EXHAUSTED));
}

TEST_F(GrpcCallsTest, ACancelledCallIsDroppedBeforeItsTurn) {
  router_config_.num_encode_threads = 1;
  StartAll();
  Block();
  const std::string no_message(size_t{1} << 20, '\xff');
  std::vector<std::weak_ptr<StreamHandler>> cancelled;
  for (const char* const method : {"Generate", "Tokenize"}) {
    const Call call = Ask(method, no_message);
    EXPECT_GE(memory_->held_bytes(), no_message.size());
    call.handler->OnClosed();
    EXPECT_EQ(memory_->held_bytes(), 0u) << method;
    EXPECT_EQ(num_places(), 0u);
    cancelled.push_back(call.handler);
  }
  // A small one was read at once, and waits as a request.
  v1::TokenizeRequest small;
  small.set_text("abc");
  const Call call = Ask("Tokenize", small);
  EXPECT_EQ(num_places(), 1u);
  call.handler->OnClosed();
  EXPECT_EQ(num_places(), 0u);
  EXPECT_EQ(memory_->held_bytes(), 0u);
  Unblock();
  for (const auto& handler : cancelled) {
    Eventually("the pool lets go of it", [&] { return handler.expired(); });
  }
  EXPECT_EQ(router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kInvalidArgument)
                .Value(),
            0);
}

TEST_F(GrpcCallsTest, AnAbortedCallLeavesTheQueueBeforeItsTurn) {
  router_config_.engine.replica.scheduler.max_running_sequences = 1;
  StartAll();
  HoldForwards();
  const auto num_live = [this] { return router_->engine().replica_status().live_requests; };
  const auto num_waiting = [this] {
    return router_->engine().admission().counts().waiting_requests;
  };
  const Call running = Ask("Generate", TextRequest("Hello", 1));
  Eventually("one has a slot", [&] { return num_live() == 1 && num_waiting() == 0; });
  v1::GenerateRequest request = TextRequest("Hello", 1);
  request.set_request_id("waiting");
  const Call waiting = Ask("Generate", request);
  Eventually("the other one waits", [&] { return num_live() == 2; });
  Block(*home_);
  v1::AbortRequest abort;
  abort.add_request_ids("waiting");
  EXPECT_EQ(StatusOf(Ask("Abort", abort)).code, "0");
  EXPECT_EQ(num_waiting(), 0u);
  Unblock();
  EXPECT_EQ(Drain(waiting).code, "0") << "its message says that it was aborted";
  waiting.handler->OnClosed();
  running.handler->OnClosed();
  ReleaseForwards();
  ExpectEverythingBack();
}

TEST_F(GrpcCallsTest, ACallThatIsNotAskedYetKeepsNoPlace) {
  StartAll();
  std::vector<Call> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(Open("Tokenize"));
  EXPECT_EQ(num_places(), 0u);
  v1::TokenizeRequest request;
  request.set_text("abc");
  const Call call = Ask("Tokenize", request);
  call.signal->Await();
  EXPECT_EQ(num_places(), 0u) << "the answer was not taken";
  EXPECT_EQ(StatusOf(call).code, "0");
}

TEST_F(GrpcCallsTest, ATenantHasAQuarterOfThePlaces) {
  router_config_.num_encode_threads = 1;
  router_config_.api.max_open_text_calls = 8;
  router_config_.tenants_path =
      WriteTenants(folder_, {{"acme", {"acme-key"}}, {"blue", {"blue-key"}}});
  StartAll();
  Block();
  v1::TokenizeRequest request;
  request.set_text("abc");
  std::vector<Call> waiting;
  for (int i = 0; i < 2; ++i) waiting.push_back(Ask("Tokenize", request, "acme-key"));
  EXPECT_EQ(StatusOf(Ask("Tokenize", request, "acme-key")).code,
            Code(grpc::StatusCode::RESOURCE_EXHAUSTED));
  waiting.push_back(Ask("Tokenize", request, "blue-key"));
  EXPECT_EQ(num_places(), 3u);
  Unblock();
  for (const Call& call : waiting) EXPECT_EQ(StatusOf(call).code, "0");
  EXPECT_EQ(num_places(), 0u);
}

TEST_F(GrpcCallsTest, ATenantAtItsLimitIsRefusedForTheHeader) {
  router_config_.num_encode_threads = 1;
  router_config_.tenants_path =
      WriteTenants(folder_, {{"acme", {"acme-key"}, R"("max_open_requests": 1)"}});
  StartAll();
  Block();
  v1::TokenizeRequest request;
  request.set_text("abc");
  const Call first = Ask("Tokenize", request, "acme-key");
  EXPECT_EQ(StatusOf(Open("Tokenize", "acme-key")).code,
            Code(grpc::StatusCode::RESOURCE_EXHAUSTED));
  Unblock();
  EXPECT_EQ(StatusOf(first).code, "0");
}

TEST_F(GrpcCallsTest, AChatIsChargedForItsMessages) {
  router_config_.num_encode_threads = 1;
  StartAll();
  Block();
  v1::TokenizeRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_chat()->add_messages()->set_role("user");
  const auto work_of = [this](const v1::TokenizeRequest& asked) {
    const Call call = Ask("Tokenize", asked);
    const size_t num_bytes = dynamic_cast<router::Strand&>(*call.handler).num_work_bytes();
    call.handler->OnClosed();
    return num_bytes;
  };
  EXPECT_GE(work_of(request), 1000 * router::PromptEncoder::kMessageWorkBytes);
  EXPECT_LE(work_of(request), 1100 * router::PromptEncoder::kMessageWorkBytes);
  request.mutable_chat()->set_template_arguments_json("{}");
  EXPECT_GE(work_of(request), 2000 * router::PromptEncoder::kMessageWorkBytes);
  // One that is too large to be read at once waits for its bytes first, then for its messages.
  for (auto& message : *request.mutable_chat()->mutable_messages()) {
    message.set_role(std::string(60, 'r'));
  }
  ASSERT_GT(request.ByteSizeLong(), size_t{32} << 10);
  const Call call = Ask("Tokenize", request);
  const auto& strand = dynamic_cast<const router::Strand&>(*call.handler);
  EXPECT_EQ(strand.num_work_bytes(), request.ByteSizeLong());
  Unblock();
  EXPECT_EQ(StatusOf(call).code, "0");
  EXPECT_GE(strand.num_work_bytes(), 2000 * router::PromptEncoder::kMessageWorkBytes);
}

TEST(TextPlacesTest, PlacesAreBoundedInTotalAndForATenant) {
  router::TextPlaces places(4);
  EXPECT_TRUE(places.Take("acme").ok());
  EXPECT_EQ(places.Take("acme").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(places.Take("").ok());
  EXPECT_TRUE(places.Take("").ok());
  EXPECT_TRUE(places.Take("blue").ok());
  EXPECT_EQ(places.Take("").code(), absl::StatusCode::kResourceExhausted);
  places.GiveBack("acme");
  EXPECT_TRUE(places.Take("acme").ok());
  EXPECT_EQ(places.num_taken(), 4u);
}

}  // namespace
}  // namespace lockstep::testing
