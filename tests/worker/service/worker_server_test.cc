#include "worker/service/worker_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <future>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "tests/support/fake_forward_model.h"
#include "tests/worker/executor/random_steps.h"
#include "tests/worker/executor/step_messages.h"
#include "tests/worker/service/raw_calls.h"
#include "tests/worker/service/step_client.h"
#include "worker/service/description.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::CallRaw;
using ::lockstep::testing::CheckHealth;
using ::lockstep::testing::FakeForwardModel;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::RawReply;
using ::lockstep::testing::StepClient;
using ::lockstep::testing::StepSequence;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kIncarnation = 4711;
constexpr char kServiceName[] = "lockstep.worker.v1.Worker";

// Stops the model until it is opened, and tells when the model has come to it.
class ModelGate {
 public:
  explicit ModelGate(FakeForwardModel& model) {
    model.set_after_forward([this](const ForwardBatch&, std::span<float>) {
      MutexLock lock(mutex_);
      arrived_ = true;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mutex_);
    });
  }
  void AwaitArrival() {
    MutexLock lock(mutex_);
    while (!arrived_) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool arrived_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

class WorkerServerTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer({}); }

  void StartServer(WorkerServerOptions options) {
    server_.reset();
    auto server = WorkerServer::Start(model_, {.max_slots = 8, .max_logprobs = 4}, kIncarnation, metrics_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(FormatAddress(server_->address()), grpc::InsecureChannelCredentials());
  }
  // Claims until the worker has noticed that the lease before has ended.
  void ClaimWithoutTakeover(uint64_t first_epoch, std::optional<StepClient>& client) {
    for (uint64_t epoch = first_epoch; epoch < first_epoch + 10'000; ++epoch) {
      client.emplace(channel_);
      if (client->Claim(epoch)) return;
    }
    FAIL() << "the former lease never ended";
  }
  static v1::StepRequest StartStep(StepSequence& steps, uint32_t max_total_tokens = 20) {
    v1::StepRequest step = steps.Next();
    *step.add_started() = MakeStarted(0, MakeTokens(5, 64, 1), {0, 1, 2, 3, 4}, max_total_tokens);
    AddRow(step, 0, 5);
    return step;
  }
  static v1::StepRequest DecodeStep(StepSequence& steps) {
    v1::StepRequest step = steps.Next();
    step.add_run_slots(0);
    return step;
  }
  std::vector<TokenId> ExpectedTokens(size_t count) const {
    std::vector<TokenId> tokens = MakeTokens(5, 64, 1);
    for (size_t i = 0; i < count; ++i) {
      const std::vector<float> logits = model_.ExpectedLogits(tokens);
      tokens.push_back(static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {tokens.begin() + 5, tokens.end()};
  }
  std::string Metrics() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

  prometheus::Registry registry_;
  FakeForwardModel model_;
  WorkerMetrics metrics_{registry_, model_.info()};
  std::unique_ptr<WorkerServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(WorkerServerTest, DescribesItself) {
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
  EXPECT_EQ(first.incarnation(), kIncarnation);
  EXPECT_EQ(first.model_id(), "fake");
  EXPECT_EQ(first.numerics_id(), model_.info().numerics_id);
  ASSERT_EQ(first.kv_groups_size(), 1);
  EXPECT_EQ(first.kv_groups(0).num_blocks(), 64u);
  EXPECT_EQ(first.kv_groups(0).block_size_tokens(), 4u);
  EXPECT_EQ(first.max_slots(), 8u);
  EXPECT_EQ(first.max_step_tokens(), 64u);
  EXPECT_EQ(first.max_logprobs(), 4u);
  EXPECT_EQ(first.max_steps_in_flight(), WorkerServiceOptions().max_steps_in_flight);
  EXPECT_EQ(first.last_epoch(), 0u);
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(12));
  EXPECT_EQ(describe().last_epoch(), 12u);
}

TEST_F(WorkerServerTest, RunsStepsThatWereSentAhead) {
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
    EXPECT_EQ(result.incarnation(), kIncarnation);
    EXPECT_GE(result.timings().total_ns(), result.timings().queue_ns() + result.timings().compute_ns());
    tokens.insert(tokens.end(), result.token_ids().begin(), result.token_ids().end());
  }
  EXPECT_EQ(tokens, ExpectedTokens(11));
  EXPECT_TRUE(client.Finish().ok());
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_steps_total{kind=\"prefill\"} 1\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_steps_total{kind=\"decode\"} 10\n"));
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_step_seconds_count{part=\"gpu\"} 11\n"));
}

TEST_F(WorkerServerTest, PollingGivesTheSameResults) {
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

TEST_F(WorkerServerTest, ASecondRouterNeedsATakeoverWhichFencesTheFirst) {
  StepClient first(channel_);
  ASSERT_TRUE(first.Claim(1));
  StepSequence first_steps(1);
  first.Run(StartStep(first_steps));

  StepClient polite(channel_);
  EXPECT_FALSE(polite.Claim(2));
  const grpc::Status turned_down = polite.Finish();
  EXPECT_EQ(turned_down.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(turned_down.error_message(), HasSubstr("takeover"));
  // The first has noticed nothing.
  EXPECT_FALSE(first.Run(DecodeStep(first_steps)).has_refusal());

  StepClient second(channel_);
  ASSERT_TRUE(second.Claim(3, /*takeover=*/true));
  const grpc::Status fenced = first.Finish();
  EXPECT_EQ(fenced.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(fenced.error_message(), "fenced by epoch 3");
  // Nothing of the first is left.
  StepSequence second_steps(3);
  EXPECT_THAT(second.Run(DecodeStep(second_steps)).refusal().message(), HasSubstr("slot 0 is empty"));
}

TEST_F(WorkerServerTest, ATakeoverWaitsForTheStepThatRuns) {
  ModelGate gate(model_);
  StepClient first(channel_);
  ASSERT_TRUE(first.Claim(1));
  StepSequence first_steps(1);
  first.Send(StartStep(first_steps));
  gate.AwaitArrival();
  first.Send(DecodeStep(first_steps));

  StepClient second(channel_);
  second.SendClaim(2, /*takeover=*/true);
  StepSequence second_steps(2);
  second.Send(StartStep(second_steps));
  // The old router learns of it at once, although its step still runs.
  EXPECT_EQ(first.Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(model_.num_forwards(), 1u);
  gate.Open();
  v1::StepResult result;
  ASSERT_TRUE(second.Receive(&result));
  EXPECT_EQ(result.step_id(), 0u);
  ASSERT_TRUE(second.Receive(&result));
  EXPECT_EQ(result.epoch(), 2u);
  EXPECT_EQ(result.token_ids(0), ExpectedTokens(1)[0]);
  // The step that still waited was never run.
  EXPECT_EQ(model_.num_forwards(), 2u);
}

TEST_F(WorkerServerTest, BadClaimsEndTheirStream) {
  StepClient stale(channel_);
  EXPECT_FALSE(stale.Claim(0));
  EXPECT_EQ(stale.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  StepClient other_life(channel_);
  other_life.SendClaim(1, /*takeover=*/false, /*expected_incarnation=*/1);
  EXPECT_THAT(other_life.Finish().error_message(), HasSubstr("expected_incarnation"));

  StepClient impatient(channel_);
  StepSequence steps(1);
  impatient.Send(StartStep(steps));
  EXPECT_EQ(impatient.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_invalid_requests_total 3\n"));

  StepClient good(channel_);
  EXPECT_TRUE(good.Claim(1));
}

TEST_F(WorkerServerTest, GapsAreRefusedUntilResync) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  client.Run(StartStep(steps));
  steps.Next();  // lost
  EXPECT_THAT(client.Run(DecodeStep(steps)).refusal().message(), HasSubstr("step_id: expected 2, got 3"));
  EXPECT_TRUE(client.Run(DecodeStep(steps)).has_refusal());
  v1::StepRequest resync = StartStep(steps);
  resync.set_resync(true);
  EXPECT_EQ(client.Run(resync).token_ids(0), ExpectedTokens(1)[0]);
  EXPECT_EQ(client.Run(DecodeStep(steps)).token_ids(0), ExpectedTokens(2)[1]);
  EXPECT_THAT(Metrics(), HasSubstr("lockstep_worker_invalid_requests_total 2\n"));
}

TEST_F(WorkerServerTest, TheEndOfAStreamFreesLeaseAndSlots) {
  std::optional<StepClient> client;
  client.emplace(channel_);
  ASSERT_TRUE(client->Claim(1));
  StepSequence steps(1);
  client->Run(StartStep(steps));
  client->Cancel();
  EXPECT_EQ(client->Finish().error_code(), grpc::StatusCode::CANCELLED);

  ASSERT_NO_FATAL_FAILURE(ClaimWithoutTakeover(2, client));
  v1::StepRequest step;
  step.set_step_id(1);
  step.add_run_slots(0);
  // Whatever epoch it got, its slots are empty.
  v1::DescribeResponse description;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::Worker::NewStub(channel_)->Describe(&context, {}, &description).ok());
  step.set_epoch(description.last_epoch());
  EXPECT_THAT(client->Run(step).refusal().message(), HasSubstr("slot 0 is empty"));
}

TEST_F(WorkerServerTest, ACancelledStreamWhoseStepRunsFreesItsLease) {
  ModelGate gate(model_);
  std::optional<StepClient> client;
  client.emplace(channel_);
  ASSERT_TRUE(client->Claim(1));
  StepSequence steps(1);
  client->Send(StartStep(steps));
  gate.AwaitArrival();
  client->Cancel();
  client->Finish();
  gate.Open();
  ClaimWithoutTakeover(2, client);
}

TEST_F(WorkerServerTest, RandomStepsNeverBreakIt) {
  model_.WriteEveryPlace();
  for (const uint64_t epoch : {1, 2}) {
    StepClient client(channel_);
    ASSERT_TRUE(client.Claim(epoch, /*takeover=*/true));
    lockstep::testing::RandomSteps steps(epoch, /*seed=*/epoch);
    for (int i = 0; i < 1500; ++i) {
      v1::StepResult result;
      ASSERT_TRUE(client.Send(steps.Next()));
      ASSERT_TRUE(client.Receive(&result));
      steps.Observe(result);
    }
  }
}

TEST_F(WorkerServerTest, BytesThatAreNoMessageEndTheStreamOnly) {
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

TEST_F(WorkerServerTest, MessagesAboveTheLimitAreTurnedDown) {
  WorkerServerOptions options;
  options.max_message_bytes = 1000;
  StartServer(options);
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  v1::StepRequest big = steps.Next();
  for (uint32_t i = 0; i < 1000; ++i) big.add_grown_blocks(i);
  client.Send(big);
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(WorkerServerTest, StreamsAreLimitedInNumber) {
  WorkerServerOptions options;
  options.service.max_streams = 2;
  StartServer(options);
  StepClient leased(channel_);
  ASSERT_TRUE(leased.Claim(1));
  StepClient idle(channel_), surplus(channel_);
  EXPECT_EQ(surplus.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  StepSequence steps(1);
  EXPECT_FALSE(leased.Run(StartStep(steps)).has_refusal());
}

TEST_F(WorkerServerTest, HealthAndReflectionAnswer) {
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  EXPECT_EQ(CheckHealth(channel_, kServiceName), "SERVING");
  // ServerReflectionRequest: field 7 is list_services.
  const RawReply reply = CallRaw(channel_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                 std::string("\x3a\x01*"));
  EXPECT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.first_message, HasSubstr(kServiceName));
}

TEST_F(WorkerServerTest, ATakenPortIsAnError) {
  WorkerServerOptions options;
  options.listen = FormatAddress(server_->address());
  const auto second = WorkerServer::Start(model_, {.max_slots = 8}, kIncarnation, metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(options.listen));
}

TEST_F(WorkerServerTest, DrainLetsRunningSequencesFinish) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  client.Run(StartStep(steps, /*max_total_tokens=*/8));
  auto clean = std::async(std::launch::async, [this] { return server_->Shutdown(absl::Seconds(20)); });
  while (CheckHealth(channel_, kServiceName) == "SERVING") {
  }
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  StepClient late(channel_);
  late.SendClaim(2, /*takeover=*/true);
  EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);

  EXPECT_FALSE(client.Run(DecodeStep(steps)).has_refusal());
  EXPECT_THAT(client.Run(DecodeStep(steps)).stopped_slots(), ElementsAre(0));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(clean.get());
}

TEST_F(WorkerServerTest, DrainEndsAnIdleLeaseAtOnceAndCutsOffABusyOneAfterItsGrace) {
  {
    StepClient idle(channel_);
    ASSERT_TRUE(idle.Claim(1));
    EXPECT_TRUE(server_->Shutdown(absl::Seconds(20)));
    EXPECT_EQ(idle.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  StartServer({});
  StepClient busy(channel_);
  ASSERT_TRUE(busy.Claim(1));
  StepSequence steps(1);
  busy.Run(StartStep(steps));
  EXPECT_FALSE(server_->Shutdown(absl::Milliseconds(1)));
  EXPECT_FALSE(busy.Finish().ok());
}

}  // namespace
}  // namespace lockstep::worker
