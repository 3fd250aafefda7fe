#include <absl/time/clock.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "tests/support/raw_calls.h"
#include "tests/worker/service/worker_server_fixture.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::CheckHealth;
using ::lockstep::testing::kServiceName;
using ::lockstep::testing::ModelGate;
using ::lockstep::testing::StepClient;
using ::lockstep::testing::StepSequence;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using WorkerLeaseTest = ::lockstep::testing::WorkerServerTest;

TEST_F(WorkerLeaseTest, ASecondRouterNeedsATakeoverWhichFencesTheFirst) {
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
  EXPECT_THAT(second.Run(DecodeStep(second_steps)).refusal().message(),
              HasSubstr("slot 0 is empty"));
}

TEST_F(WorkerLeaseTest, ATakeoverWaitsForTheStepThatRuns) {
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

TEST_F(WorkerLeaseTest, BadClaimsEndTheirStream) {
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

TEST_F(WorkerLeaseTest, TheEndOfAStreamFreesLeaseAndSlots) {
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

TEST_F(WorkerLeaseTest, ACancelledStreamWhoseStepRunsFreesItsLease) {
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

TEST_F(WorkerLeaseTest, StreamsAreLimitedInNumber) {
  WorkerServerOptions options;
  options.service.max_streams = 2;
  StartServer(options);
  StepClient leased(channel_);
  ASSERT_TRUE(leased.Claim(1));
  StepClient idle(channel_), newcomer(channel_);
  // Who claims nothing makes room.
  EXPECT_EQ(idle.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(newcomer.Claim(2, /*takeover=*/true));
  leased.Finish();
  StepSequence steps(2);
  EXPECT_FALSE(newcomer.Run(StartStep(steps)).has_refusal());
}

TEST_F(WorkerLeaseTest, WithoutAnIdleStreamTheNewOneIsTurnedDown) {
  WorkerServerOptions options;
  options.service.max_streams = 1;
  StartServer(options);
  StepClient leased(channel_);
  ASSERT_TRUE(leased.Claim(1));
  StepClient surplus(channel_);
  EXPECT_EQ(surplus.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  StepSequence steps(1);
  EXPECT_FALSE(leased.Run(StartStep(steps)).has_refusal());
}

TEST_F(WorkerLeaseTest, DrainLetsRunningSequencesFinish) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  EXPECT_FALSE(client.Run(StartStep(steps, /*max_total_tokens=*/8)).draining());
  auto clean =
      std::async(std::launch::async, [this] { return server_->Shutdown(absl::Seconds(20)); });
  while (CheckHealth(channel_, kServiceName) == "SERVING") {
  }
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  StepClient late(channel_);
  late.SendClaim(2, /*takeover=*/true);
  EXPECT_EQ(late.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);

  const v1::StepResult result = client.Run(DecodeStep(steps));
  EXPECT_FALSE(result.has_refusal());
  EXPECT_TRUE(result.draining());
  EXPECT_THAT(client.Run(DecodeStep(steps)).stopped_slots(), ElementsAre(0));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(clean.get());
}

TEST_F(WorkerLeaseTest, DrainEndsWithTheStepThatReleasesTheLastSequence) {
  StepClient client(channel_);
  ASSERT_TRUE(client.Claim(1));
  StepSequence steps(1);
  client.Run(StartStep(steps));
  auto clean =
      std::async(std::launch::async, [this] { return server_->Shutdown(absl::Seconds(20)); });
  while (CheckHealth(channel_, kServiceName) == "SERVING") {
  }
  v1::StepRequest release = steps.Next();
  release.add_released_slots(0);
  EXPECT_TRUE(client.Run(release).draining());
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(clean.get());
}

TEST_F(WorkerLeaseTest, DrainEndsAnIdleLeaseAtOnceAndCutsOffABusyOneAfterItsGrace) {
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

v1::DescribeResponse Describe(const std::shared_ptr<grpc::Channel>& channel) {
  v1::DescribeResponse description;
  grpc::ClientContext context;
  EXPECT_TRUE(v1::Worker::NewStub(channel)->Describe(&context, {}, &description).ok());
  return description;
}

// The router that the worker belongs to claims it, and is refused.
void AskBack(const std::shared_ptr<grpc::Channel>& channel, uint64_t epoch) {
  StepClient owner(channel);
  EXPECT_FALSE(owner.Claim(epoch));
  EXPECT_THAT(owner.Finish().error_message(), HasSubstr("gives the worker back"));
}

TEST_F(WorkerLeaseTest, DescribeTellsWhetherALeaseLives) {
  EXPECT_EQ(Describe(channel_).live_epoch(), 0u);
  std::optional<StepClient> client;
  client.emplace(channel_);
  ASSERT_TRUE(client->Claim(7));
  EXPECT_EQ(Describe(channel_).live_epoch(), 7u);
  client.reset();
  while (Describe(channel_).live_epoch() != 0) std::this_thread::yield();
  EXPECT_EQ(Describe(channel_).last_epoch(), 7u);
}

TEST_F(WorkerLeaseTest, AStandInFinishesWhatRunsAndTheOwnerGetsTheWorker) {
  StepClient stand_in(channel_);
  ASSERT_TRUE(stand_in.ClaimAsStandIn(1));
  StepSequence steps(1);
  EXPECT_FALSE(stand_in.Run(StartStep(steps, /*max_total_tokens=*/8)).asked_back());
  AskBack(channel_, 2);
  AskBack(channel_, 2);  // asking again changes nothing
  const v1::StepResult result = stand_in.Run(DecodeStep(steps));
  EXPECT_TRUE(result.asked_back());
  EXPECT_FALSE(result.draining());
  EXPECT_THAT(stand_in.Run(DecodeStep(steps)).stopped_slots(), ElementsAre(0));
  const grpc::Status end = stand_in.Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(end.error_message(), HasSubstr("the router that it belongs to"));

  StepClient owner(channel_);
  ASSERT_TRUE(owner.Claim(3));
  StepSequence owner_steps(3);
  EXPECT_FALSE(owner.Run(StartStep(owner_steps)).asked_back());
  // The owner keeps the worker, whoever claims.
  StepClient late(channel_);
  EXPECT_FALSE(late.ClaimAsStandIn(4));
  EXPECT_FALSE(owner.Run(DecodeStep(owner_steps)).asked_back());
}

TEST_F(WorkerLeaseTest, AnIdleStandInGivesTheWorkerBackAtOnce) {
  StepClient stand_in(channel_);
  ASSERT_TRUE(stand_in.ClaimAsStandIn(1));
  AskBack(channel_, 2);
  EXPECT_THAT(stand_in.Finish().error_message(), HasSubstr("the router that it belongs to"));
  StepClient owner(channel_);
  EXPECT_TRUE(owner.Claim(3));
}

TEST_F(WorkerLeaseTest, ABusyStandInIsCutOffAfterTheGrace) {
  WorkerServerOptions options;
  options.service.hand_back_grace = absl::Milliseconds(1);
  StartServer(options);
  StepClient stand_in(channel_);
  ASSERT_TRUE(stand_in.ClaimAsStandIn(1));
  StepSequence steps(1);
  stand_in.Run(StartStep(steps));
  AskBack(channel_, 2);
  EXPECT_THAT(stand_in.Finish().error_message(), HasSubstr("the router that it belongs to"));
  StepClient owner(channel_);
  EXPECT_TRUE(owner.Claim(3));
}

TEST_F(WorkerLeaseTest, AWorkerThatWaitsForAStandInShutsDownAtOnce) {
  std::optional<StepClient> stand_in;
  stand_in.emplace(channel_);
  ASSERT_TRUE(stand_in->ClaimAsStandIn(1));
  StepSequence steps(1);
  stand_in->Run(StartStep(steps));
  AskBack(channel_, 2);
  stand_in.reset();
  // It does not wait for the end of the grace, which is half a minute.
  const absl::Time start = absl::Now();
  EXPECT_TRUE(server_->Shutdown(absl::Seconds(20)));
  EXPECT_LT(absl::Now() - start, absl::Seconds(15));
}

}  // namespace
}  // namespace lockstep::worker
