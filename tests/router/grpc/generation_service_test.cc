#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/router/serving/byte_tokenizer.h"
#include "tests/router/serving/serving_fixture.h"

// The public service over loopback, with everything behind it.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using GenerationServiceTest = ServingTest;

constexpr uint32_t kStartToken = 1;  // every text prompt begins with <s>

// The hint in the trailing metadata; empty when there is none.
std::string RetryHint(const grpc::ClientContext& context) {
  const auto hint = context.GetServerTrailingMetadata().find("retry-after-ms");
  if (hint == context.GetServerTrailingMetadata().end()) return "";
  return std::string(hint->second.data(), hint->second.size());
}

TEST_F(GenerationServiceTest, StreamsTextWithUsageAndTimings) {
  StartBoth();
  v1::GenerateRequest request = TextRequest("Hello", 40);
  request.set_request_id("mine");
  request.mutable_sampling()->set_seed(77);
  const Reply reply = Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_TRUE(reply.messages.front().has_prompt_info());
  EXPECT_EQ(reply.prompt_info().request_id(), "mine");
  EXPECT_EQ(reply.prompt_info().prompt_tokens(), 5 + kStartToken);
  EXPECT_EQ(reply.Text(), Continuation(6, 40));
  EXPECT_THAT(reply.Tokens(), ElementsAreArray(Bytes(Continuation(6, 40))));
  ASSERT_TRUE(reply.messages.back().has_finish());
  const v1::Finish& finish = *reply.Finish();
  EXPECT_EQ(finish.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(finish.usage().prompt_tokens(), 6u);
  EXPECT_EQ(finish.usage().completion_tokens(), 40u);
  EXPECT_EQ(finish.usage().seed(), 77u);
  EXPECT_GT(finish.timings().time_to_first_token_seconds(), 0);
  EXPECT_GE(finish.timings().total_seconds(), finish.timings().time_to_first_token_seconds());
  ExpectEverythingBack();
  EXPECT_EQ(router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kOk).Value(), 1);
}

TEST_F(GenerationServiceTest, ChatAndTokenIds) {
  StartBoth();
  v1::GenerateRequest chat = TextRequest("", 5);
  v1::ChatMessage* const message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Hi");
  const uint32_t num_prompt_tokens =
      std::string_view("?user\nHi?\n?assistant\n").size();  // ? stands for a special token
  EXPECT_EQ(Generate(chat).Text(), Continuation(num_prompt_tokens, 5));

  v1::GenerateRequest ids = TextRequest("", 5);
  for (const uint32_t id : {3u, 1u, 258u}) ids.mutable_token_ids()->add_ids(id);
  EXPECT_EQ(Generate(ids).Text(), Continuation(3, 5));
}

TEST_F(GenerationServiceTest, SecondRequestHitsThePrefixCache) {
  StartBoth();
  const v1::GenerateRequest request = TextRequest(std::string(40, 'x'), 3);
  Generate(request);
  const Reply reply = Generate(request);
  EXPECT_EQ(reply.prompt_info().cached_tokens(), 32u);
  EXPECT_EQ(reply.Finish()->usage().cached_tokens(), 32u);
  EXPECT_EQ(reply.Text(), Continuation(41, 3));
}

TEST_F(GenerationServiceTest, SamplesAndLogprobs) {
  StartBoth();
  v1::GenerateRequest request = TextRequest("abc", 6);
  request.mutable_sampling()->set_n(3);
  request.mutable_output()->set_logprobs(2);
  request.mutable_output()->set_prompt_logprobs(1);
  const Reply reply = Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_EQ(reply.prompt_info().prompt_logprobs_size(), 4);
  EXPECT_EQ(reply.prompt_info().prompt_logprobs(0).token_id(), ByteTokenizer::kBos);
  EXPECT_EQ(reply.prompt_info().prompt_logprobs(0).top_ids_size(), 0);
  EXPECT_EQ(reply.prompt_info().prompt_logprobs(1).token_id(), static_cast<uint32_t>('a'));
  EXPECT_EQ(reply.prompt_info().prompt_logprobs(1).top_ids_size(), 1);
  for (uint32_t index = 0; index < 3; ++index) {
    EXPECT_EQ(reply.Text(index), Continuation(4, 6));
    ASSERT_NE(reply.Finish(index), nullptr);
    for (const v1::GenerateResponse& message : reply.messages) {
      if (!message.has_delta() || message.delta().index() != index) continue;
      ASSERT_EQ(message.delta().logprobs_size(), message.delta().token_ids_size());
      for (int i = 0; i < message.delta().logprobs_size(); ++i) {
        EXPECT_EQ(message.delta().logprobs(i).token_id(), message.delta().token_ids(i));
        EXPECT_EQ(message.delta().logprobs(i).rank(), 1u);
        EXPECT_EQ(message.delta().logprobs(i).top_ids_size(), 2);
      }
    }
  }
}

TEST_F(GenerationServiceTest, StopStringEndsTheSequenceInTheEngineToo) {
  StartBoth();
  v1::GenerateRequest request = TextRequest("", 2000);
  request.mutable_token_ids()->add_ids(1);  // the continuation starts with "bcdef"
  request.mutable_stop()->add_stop("def");
  const Reply reply = Generate(request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), "bc");
  EXPECT_EQ(reply.Finish()->stop_string(), "def");
  EXPECT_EQ(reply.Finish()->usage().completion_tokens(), 5u);
  ExpectEverythingBack();
  EXPECT_LT(metrics_.generation_tokens_total->Value(), 2000);
}

TEST_F(GenerationServiceTest, EndTokenStops) {
  StartBoth();
  v1::GenerateRequest request = TextRequest("", 20);
  request.mutable_token_ids()->add_ids(1);
  request.mutable_stop()->add_stop_token_ids('e');
  const Reply reply = Generate(request);
  EXPECT_EQ(reply.Text(), "bcd");
  EXPECT_EQ(reply.Finish()->stop_token_id(), static_cast<uint32_t>('e'));
  EXPECT_EQ(reply.Finish()->reason(), v1::FINISH_REASON_STOP);
}

TEST_F(GenerationServiceTest, CancelledCallGivesItsBlocksBack) {
  StartBoth();
  HoldForwards();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("Hello", 1000));
  AllowForwards(3);
  v1::GenerateResponse message;
  while (reader->Read(&message) && !message.has_delta()) {
  }
  EXPECT_GT(router_->engine().replica_statuses().front().scheduler.used_blocks, 0u);
  context.TryCancel();
  ReleaseForwards();
  EXPECT_EQ(ReadAll(*reader).status.error_code(), grpc::StatusCode::CANCELLED);
  ExpectEverythingBack();
  EXPECT_LT(metrics_.generation_tokens_total->Value(), 1000);
}

TEST_F(GenerationServiceTest, DeadlineEndsTheCallMidStream) {
  StartBoth();
  HoldForwards();
  AllowForwards(3);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  const Reply reply = Generate(context, TextRequest("Hello", 1000));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ReleaseForwards();
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, DefaultTimeoutEndsCallsWithoutADeadline) {
  router_config_.api.default_timeout = absl::Milliseconds(200);
  StartBoth();
  HoldForwards();
  AllowForwards(3);
  const Reply reply = Generate(TextRequest("Hello", 1000));
  ExpectStatus(reply.status, grpc::StatusCode::DEADLINE_EXCEEDED, "");
  EXPECT_EQ(reply.Text().substr(0, 1), Continuation(6, 1));
  ReleaseForwards();
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, FullQueueRefusesAtOnceWithAHint) {
  router_config_.engine.admission.max_waiting_requests = 2;
  router_config_.engine.replica.scheduler.max_running_sequences = 1;
  StartBoth();
  HoldForwards();
  std::vector<std::thread> clients;
  std::vector<Reply> replies(3);
  for (Reply& reply : replies) {
    clients.emplace_back([this, &reply] { reply = Generate(TextRequest("Hello", 5)); });
    // One runs and two wait: the next may come once this one is where it belongs.
    const size_t number = clients.size();
    Eventually("the request is counted", [&] {
      const auto counts = router_->engine().admission().counts();
      return counts.open_requests == number && counts.waiting_requests == number - 1;
    });
  }
  grpc::ClientContext context;
  const Reply refused = Generate(context, TextRequest("Hello", 5));
  ExpectStatus(refused.status, grpc::StatusCode::RESOURCE_EXHAUSTED,
               "the queue is full: 2 requests wait");
  EXPECT_EQ(RetryHint(context), "1000");
  EXPECT_EQ(Rejected(router::Rejection::kQueueRequests), 1);
  ReleaseForwards();
  for (std::thread& client : clients) client.join();
  for (const Reply& reply : replies) EXPECT_EQ(reply.Text(), Continuation(6, 5));
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, TheSchedulersRefusalCarriesTheHintToo) {
  router_config_.engine.replica.scheduler.max_waiting_requests = 1;
  router_config_.engine.replica.scheduler.max_running_sequences = 1;
  StartBoth();
  HoldForwards();
  std::vector<std::thread> clients;
  std::vector<Reply> replies(2);
  for (Reply& reply : replies) {
    clients.emplace_back([this, &reply] { reply = Generate(TextRequest("Hello", 5)); });
    const size_t number = clients.size();
    Eventually("one runs, then one waits as well", [&] {
      const router::ReplicaStatus status = router_->engine().replica_statuses().front();
      return status.live_requests == number && status.scheduler.waiting_requests == number - 1;
    });
  }
  grpc::ClientContext context;
  const Reply refused = Generate(context, TextRequest("Hello", 5));
  ExpectStatus(refused.status, grpc::StatusCode::RESOURCE_EXHAUSTED, "1 requests wait, at most 1");
  EXPECT_EQ(RetryHint(context), "1000");
  ReleaseForwards();
  for (std::thread& client : clients) client.join();
  for (const Reply& reply : replies) EXPECT_EQ(reply.Text(), Continuation(6, 5));
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, ThePoolOfBlocksBoundsTheContext) {
  model_options_.num_blocks = 4;  // of 16 tokens
  StartBoth();
  grpc::ClientContext context;
  v1::Model model;
  ASSERT_TRUE(stub_->GetModel(&context, v1::GetModelRequest(), &model).ok());
  EXPECT_EQ(model.max_context_tokens(), 64u);
  v1::GenerateRequest open_ended = TextRequest("Hello", 1);
  open_ended.clear_stop();
  const Reply reply = Generate(open_ended);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), Continuation(6, 58));
  EXPECT_EQ(reply.Finish()->reason(), v1::FINISH_REASON_LENGTH);
  ExpectStatus(Generate(TextRequest(std::string(63, 'x'), 1)).status,
               grpc::StatusCode::INVALID_ARGUMENT,
               "maximum context length is 64 tokens. However, you requested");
  ExpectStatus(Generate(TextRequest("Hello", 59)).status, grpc::StatusCode::INVALID_ARGUMENT,
               "you requested 65 tokens (6 in the prompt, 59 in the completion)");
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, QueueCountsTokensBeforeTheyAreTokens) {
  router_config_.engine.admission.max_waiting_tokens = 100;
  StartBoth();
  const Reply reply = Generate(TextRequest(std::string(1000, 'x'), 5));
  ExpectStatus(reply.status, grpc::StatusCode::INVALID_ARGUMENT,
               "prompt: about 251 tokens, at most 100 may wait");
  EXPECT_EQ(Rejected(router::Rejection::kQueueTokens), 1);
}

TEST_F(GenerationServiceTest, BadInputIsNamed) {
  StartBoth();
  v1::GenerateRequest request = TextRequest("x", 5);
  request.mutable_sampling()->set_top_p(1.5f);
  ExpectStatus(Generate(request).status, grpc::StatusCode::INVALID_ARGUMENT,
               "sampling.top_p: expected a number in (0, 1], got 1.5");
  request = TextRequest("x", 5);
  request.mutable_sampling()->set_grammar("root");
  ExpectStatus(Generate(request).status, grpc::StatusCode::UNIMPLEMENTED, "sampling.grammar");
  request = TextRequest("x", 5);
  request.set_model("other");
  ExpectStatus(Generate(request).status, grpc::StatusCode::NOT_FOUND, "model: expected \"bytes\"");
  request = TextRequest("x", 5);
  request.mutable_output()->set_logprobs(21);
  ExpectStatus(Generate(request).status, grpc::StatusCode::INVALID_ARGUMENT, "output.logprobs");
  ExpectStatus(Generate(TextRequest(std::string(4096, 'x'), 1)).status,
               grpc::StatusCode::INVALID_ARGUMENT,
               "maximum context length is 4096 tokens. However, you");
  ExpectEverythingBack();
  EXPECT_EQ(router::RouterMetrics::At(metrics_.requests_total, absl::StatusCode::kInvalidArgument)
                .Value(),
            3);
}

TEST_F(GenerationServiceTest, OversizedMessagesAreRefusedUnread) {
  router_config_.api.limits.max_prompt_bytes = 1000;
  StartBoth();
  ExpectStatus(Generate(TextRequest(std::string(1001, 'x'), 1)).status,
               grpc::StatusCode::INVALID_ARGUMENT, "text: expected at most 1000 bytes, got 1001");
  ExpectStatus(Generate(TextRequest(std::string(2 << 20, 'x'), 1)).status,
               grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max");
  EXPECT_EQ(Generate(TextRequest("x", 2)).Text(), Continuation(2, 2));
}

TEST_F(GenerationServiceTest, MalformedMessagesAreRefused) {
  StartBoth();
  grpc::GenericStub stub(channel_);
  // A wrong wire type, a cut length, and text that is no UTF-8.
  for (const std::string& bytes :
       {std::string("\x0f"), std::string("\x1a\x7fx"), std::string("\x1a\x02\xff\xfe")}) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    const auto call = stub.PrepareUnaryCall(&context, "/lockstep.v1.Generation/Generate",
                                            grpc::ByteBuffer(&slice, 1), &queue);
    call->StartCall();
    grpc::ByteBuffer response;
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(status.ok());
  }
  EXPECT_EQ(Generate(TextRequest("x", 2)).Text(), Continuation(2, 2));
  ExpectEverythingBack();
}

TEST_F(GenerationServiceTest, RequestIdsInUseAreRefusedAndAbortFindsThem) {
  StartBoth();
  HoldForwards();
  v1::GenerateRequest request = TextRequest("Hello", 1000);
  request.set_request_id("twin");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  AllowForwards(3);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  ExpectStatus(Generate(request).status, grpc::StatusCode::INVALID_ARGUMENT,
               "request_id: expected one that is not in use, got \"twin\"");

  v1::AbortRequest abort;
  abort.add_request_ids("twin");
  abort.add_request_ids("unknown");
  v1::AbortResponse aborted;
  grpc::ClientContext abort_context;
  ASSERT_TRUE(stub_->Abort(&abort_context, abort, &aborted).ok());
  EXPECT_EQ(aborted.aborted(), 1u);
  // Nothing is computed before the engine has taken up the abort.
  const Reply reply = ReadAll(*reader);
  ReleaseForwards();
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  ASSERT_NE(reply.Finish(), nullptr);
  EXPECT_EQ(reply.Finish()->reason(), v1::FINISH_REASON_ABORT);
  EXPECT_LT(reply.Finish()->usage().completion_tokens(), 1000u);
  ExpectEverythingBack();
  request.mutable_stop()->set_max_tokens(2);
  EXPECT_EQ(Generate(request).Text(), Continuation(6, 2));  // the id is free again
}

TEST_F(GenerationServiceTest, ASlowReaderStopsNobodyElse) {
  StartBoth();
  // 4000 tokens with 20 log-probabilities each, half a megabyte, are more than the transport holds
  // between the two, as long as it does not find out that it could hold more.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto narrow = v1::Generation::NewStub(OpenChannel(client_tls_, arguments));
  grpc::ClientContext context;
  v1::GenerateRequest big = TextRequest("x", 4000);
  big.mutable_output()->set_logprobs(20);
  const auto slow = narrow->Generate(&context, big);
  EXPECT_EQ(Generate(TextRequest("Hello", 50)).Text(), Continuation(6, 50));
  Eventually("the slow reader's tokens are made all the same",
             [&] { return router_->engine().replica_status().live_requests == 0; });
  const Reply reply = ReadAll(*slow);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), Continuation(2, 4000));
  EXPECT_LT(reply.messages.size(), 4000u);  // what waited was merged
  ExpectEverythingBack();
}

// The metadata that carries an error has a bound, and what is beyond it becomes another error.
TEST_F(GenerationServiceTest, AnErrorAboutBadArgumentsOfATemplateArrivesAsItself) {
  StartBoth();
  for (const std::string bad : {"\x01", "\x7f", "k"}) {
    std::string arguments = "{\"a\": \"";
    while (arguments.size() < 60'000) arguments += bad;
    v1::GenerateRequest request;
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content("hi");
    request.mutable_chat()->set_template_arguments_json(arguments);
    const Reply reply = Generate(request);
    EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << reply.status.error_message();
    EXPECT_THAT(reply.status.error_message(), HasSubstr("chat.template_arguments_json: byte "));
    EXPECT_LT(reply.status.error_message().size(), 400u);
  }
}

}  // namespace
}  // namespace lockstep::testing
