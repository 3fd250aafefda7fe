#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/common/temp_folder.h"
#include "tests/support/loopback_client.h"
#include "tests/support/raw_calls.h"
#include "tests/worker/service/worker_server_fixture.h"
#include "tests/worker/steps/random_steps.h"
#include "worker/service/description.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::CallRaw;
using ::lockstep::testing::CheckHealth;
using ::lockstep::testing::kServerIncarnation;
using ::lockstep::testing::kServiceName;
using ::lockstep::testing::LoopbackClient;
using ::lockstep::testing::RandomSteps;
using ::lockstep::testing::RawReply;
using ::lockstep::testing::StepClient;
using ::lockstep::testing::StepSequence;
using ::testing::HasSubstr;

using WorkerServerStepsTest = ::lockstep::testing::WorkerServerTest;

TEST_F(WorkerServerStepsTest, DescribesItself) {
  const auto stub = v1::Worker::NewStub(channel_);
  v1::DescribeRequest request;
  request.set_protocol_version(kProtocolVersion);
  const auto describe = [&] {
    grpc::ClientContext context;
    v1::DescribeResponse response;
    EXPECT_TRUE(stub->Describe(&context, request, &response).ok());
    return response;
  };
  const v1::DescribeResponse first = describe();
  EXPECT_EQ(first.protocol_version(), kProtocolVersion);
  EXPECT_EQ(first.incarnation(), kServerIncarnation);
  EXPECT_EQ(first.model_id(), "fake");
  EXPECT_EQ(first.numerics_id(), model_.info().numerics_id);
  ASSERT_EQ(first.kv_groups_size(), 1);
  EXPECT_EQ(first.kv_groups(0).num_blocks(), 64u);
  EXPECT_EQ(first.kv_groups(0).block_size_tokens(), 4u);
  EXPECT_EQ(first.tensor_parallel(), 2u);
  EXPECT_EQ(first.max_slots(), 8u);
  EXPECT_EQ(first.max_step_tokens(), 64u);
  EXPECT_EQ(first.max_logprobs(), 4u);
  EXPECT_EQ(first.max_steps_in_flight(), WorkerServiceOptions().max_steps_in_flight);
  EXPECT_EQ(first.last_epoch(), 0u);
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(12));
  EXPECT_EQ(describe().last_epoch(), 12u);
}

TEST_F(WorkerServerStepsTest, RunsStepsThatWereSentAhead) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  client.Send(StartStep(steps));
  for (int i = 0; i < 10; ++i) client.Send(DecodeStep(steps));
  client.CloseInput();
  std::vector<TokenId> tokens;
  v1::StepResult result;
  for (uint64_t step_id = 1; step_id <= 11; ++step_id) {
    ASSERT_TRUE(client.Receive(&result));
    EXPECT_EQ(result.step_id(), step_id);
    EXPECT_EQ(result.incarnation(), kServerIncarnation);
    EXPECT_GE(result.timings().total_ns(),
              result.timings().queue_ns() + result.timings().compute_ns());
    tokens.insert(tokens.end(), result.token_ids().begin(), result.token_ids().end());
  }
  EXPECT_EQ(tokens, ExpectedTokens(11));
  EXPECT_TRUE(client.Finish().ok());
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_steps_total{kind=\"prefill\"} 1\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_steps_total{kind=\"decode\"} 10\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_step_seconds_count{part=\"gpu\"} 11\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_memory_bytes{kind=\"weights\"} 100\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_memory_bytes{kind=\"kv_cache\"} 200\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_memory_bytes{kind=\"workspace\"} 300\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_cuda_graph_replays_total 0\n"));
}

TEST_F(WorkerServerStepsTest, PollingGivesTheSameResults) {
  WorkerServerOptions options;
  options.service.poll_window = absl::Milliseconds(2);
  StartServer(options);
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  std::vector<TokenId> tokens = {client.Run(StartStep(steps)).token_ids(0)};
  for (int i = 0; i < 5; ++i) tokens.push_back(client.Run(DecodeStep(steps)).token_ids(0));
  EXPECT_EQ(tokens, ExpectedTokens(6));
}

TEST_F(WorkerServerStepsTest, GapsAreRefusedUntilResync) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  client.Run(StartStep(steps));
  steps.Next();  // lost
  EXPECT_THAT(client.Run(DecodeStep(steps)).refusal().message(),
              HasSubstr("step_id: expected 2, got 3"));
  EXPECT_TRUE(client.Run(DecodeStep(steps)).has_refusal());
  v1::StepRequest resync = StartStep(steps);
  resync.set_resync(true);
  EXPECT_EQ(client.Run(resync).token_ids(0), ExpectedTokens(1)[0]);
  EXPECT_EQ(client.Run(DecodeStep(steps)).token_ids(0), ExpectedTokens(2)[1]);
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_invalid_requests_total 2\n"));
}

TEST_F(WorkerServerStepsTest, RandomStepsNeverBreakIt) {
  model_.WriteEveryPlace();
  for (const uint64_t epoch : {1, 2}) {
    StepClient client(channel_);
    ASSERT_TRUE(client.Claim(epoch, /*takeover=*/true));
    RandomSteps steps(epoch, /*seed=*/epoch);
    for (int i = 0; i < 1500; ++i) {
      v1::StepResult result;
      ASSERT_TRUE(client.Send(steps.Next()));
      ASSERT_TRUE(client.Receive(&result));
      steps.Observe(result);
    }
  }
}

TEST_F(WorkerServerStepsTest, BytesThatAreNoMessageEndTheStreamOnly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    std::string bytes(1 + random() % 100, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const RawReply reply = CallRaw(channel_, "/lockstep.worker.v1.Worker/Execute", bytes);
    EXPECT_TRUE(reply.first_message.empty());
    EXPECT_NE(reply.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  StepClient client(channel_);
  EXPECT_TRUE(client.Claim(1));
}

TEST_F(WorkerServerStepsTest, MessagesAboveTheLimitAreTurnedDown) {
  WorkerServerOptions options;
  options.service.max_message_bytes = 1000;
  StartServer(options);
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  v1::StepRequest big = steps.Next();
  for (uint32_t i = 0; i < 1000; ++i) big.add_grown_blocks(i);
  client.Send(big);
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(WorkerServerStepsTest, HealthAndReflectionAnswer) {
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  EXPECT_EQ(CheckHealth(channel_, kServiceName), "SERVING");
  // ServerReflectionRequest: field 7 is list_services.
  const RawReply reply =
      CallRaw(channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x01*"));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.first_message, HasSubstr(kServiceName));
}

TEST_F(WorkerServerStepsTest, ConnectionsAreBounded) {
  WorkerServerOptions options;
  options.max_connections = 3;
  StartServer(options);
  const uint16_t port = server_->address().port;
  std::vector<LoopbackClient> silent;
  for (int i = 0; i < 3; ++i) {
    silent.emplace_back(port);
    EXPECT_GT(silent.back().Receive(), 0) << "the server greets it";
  }
  EXPECT_EQ(LoopbackClient(port).Receive(), 0) << "it is closed at once";
  silent.clear();
  // Once the server has seen that they left. It tries again where the server has not yet.
  while (LoopbackClient(port).Receive() == 0) {
  }
  ASSERT_TRUE(
      channel_->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  StepClient client(channel_);
  EXPECT_TRUE(client.Claim(1));
}

TEST_F(WorkerServerStepsTest, AUnixSocketServesItsUser) {
  const TempFolder folder;
  WorkerServerOptions options;
  options.listen = "unix:" + folder.path() + "/worker";
  StartServer(options);
  EXPECT_EQ(server_->endpoint(), options.listen);
  const auto channel = grpc::CreateChannel(options.listen, grpc::InsecureChannelCredentials());
  StepClient client(channel);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  EXPECT_EQ(client.Run(StartStep(steps)).token_ids(0), ExpectedTokens(1)[0]);
  const auto second = WorkerServer::Start(
      std::make_unique<CpuStepRunner>(model_, ExecutorLimits{.max_slots = 8}, kServerIncarnation),
      model_.info(), kServerIncarnation, metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(client.Run(DecodeStep(steps)).has_refusal()) << "it has noticed nothing";
  server_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/worker"));
}

TEST_F(WorkerServerStepsTest, ATakenPortIsAnError) {
  WorkerServerOptions options;
  options.listen = FormatAddress(server_->address());
  const auto second = WorkerServer::Start(
      std::make_unique<CpuStepRunner>(model_, ExecutorLimits{.max_slots = 8}, kServerIncarnation),
      model_.info(), kServerIncarnation, metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(options.listen));
}

}  // namespace
}  // namespace lockstep::worker
