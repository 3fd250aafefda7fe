#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "router/strands/stall_watch.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/serving/serving_fixture.h"
#include "tests/support/raw_calls.h"

// Workers that come, go and do not fit; the drain; health.
namespace lockstep::testing {
namespace {

namespace v1 = lockstep::v1;
using ::testing::HasSubstr;

// Drops all work.
class NoRunner final : public router::StrandRunner {
 private:
  void Push(std::shared_ptr<router::Strand> /*strand*/) override {}
};

class FailoverTest : public ServingTest {
 protected:
  void WaitForHealth(const std::string& status) {
    Eventually("the health service says so",
               [&] { return CheckHealth(channel_, "lockstep.v1.Generation") == status; });
  }
};

TEST_F(FailoverTest, ThreadsOfConnectionsAndWorkersTakeTheWorkOfAWatch) {
  StartBoth();
  router::StallWatch watch(absl::ZeroDuration());  // stalled until the last strand is taken
  router_->WatchThreads(watch);
  EXPECT_EQ(watch.Look(Instant()), "");
  Eventually("all threads took theirs", [&] { return watch.Look(Instant()).empty(); });
  watch.Watch("nobody", std::make_shared<NoRunner>());
  Eventually("only the last is stuck", [&] { return watch.Look(Instant()) == "nobody"; });
}

TEST_F(FailoverTest, TokensContinueExactlyOnANewWorker) {
  StartBoth();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 60)); });
  AllowForwards(10);
  Eventually("some tokens are out", [&] { return metrics_.generation_tokens_total->Value() >= 5; });
  StopWorker();
  StartWorker();
  client.join();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), Continuation(6, 60));
  EXPECT_EQ(reply.Finish()->usage().completion_tokens(), 60u);
  EXPECT_EQ(metrics_.ForWorker(worker_address()).restarts_total->Value(), 1);
  ExpectEverythingBack();
}

TEST_F(FailoverTest, WithoutAWorkerCallsFailFastAndSayWhy) {
  StartWorker();  // only to learn a port on which nobody listens afterwards
  StopWorker();
  StartRouter();
  const Reply reply = Generate(TextRequest("Hello", 5));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("no worker"));
  EXPECT_EQ(Rejected(router::Rejection::kNoWorker), 1);
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  EXPECT_EQ(CheckHealth(channel_, "lockstep.v1.Generation"), "NOT_SERVING");
  StartWorker();
  WaitForHealth("SERVING");
  EXPECT_EQ(Generate(TextRequest("Hello", 5)).Text(), Continuation(6, 5));
}

TEST_F(FailoverTest, NoWorkerComesBack) {
  router_config_.engine.replica.failover_wait = absl::Milliseconds(100);
  StartBoth();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 1000)); });
  AllowForwards(5);
  Eventually("some tokens are out", [&] { return metrics_.generation_tokens_total->Value() >= 2; });
  StopWorker();
  client.join();
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("none came back within 100ms"));
  EXPECT_EQ(reply.Text(), Continuation(6, static_cast<uint32_t>(reply.Text().size())));
  EXPECT_TRUE(router_->engine().admission().WaitUntilNoneOpen(absl::Seconds(60)));
}

TEST_F(FailoverTest, AWorkerOfAnotherModelIsRefusedByName) {
  expected_fingerprint_ += 1;
  StartWorker();
  StartRouter();
  Eventually("the worker was looked at", [&] {
    return router_->engine().replica_status().worker_state == router::WorkerState::kMismatched;
  });
  const Reply reply = Generate(TextRequest("Hello", 5));
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(reply.status.error_message(), HasSubstr("model_fingerprint: expected"));
  EXPECT_EQ(CheckHealth(channel_, "lockstep.v1.Generation"), "NOT_SERVING");
}

TEST_F(FailoverTest, AHungWorkerIsGivenUp) {
  router_config_.engine.replica.step_timeout = absl::Milliseconds(200);
  StartBoth();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 20)); });
  Eventually("the lease is dropped", [&] { return !router_->engine().ready(); });
  ReleaseForwards();
  client.join();
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.Text(), Continuation(6, 20));
}

TEST_F(FailoverTest, DrainFinishesWhatRunsAndRefusesTheRest) {
  StartBoth();
  WaitForHealth("SERVING");
  HoldForwards();
  Reply running;
  std::thread client([&] { running = Generate(TextRequest("Hello", 20)); });
  Eventually("it runs", [&] { return router_->engine().replica_status().live_requests == 1; });
  bool drained = false;
  std::thread drain([&] { drained = router_->Drain(absl::Seconds(60)); });
  WaitForHealth("NOT_SERVING");
  const Reply refused = Generate(TextRequest("Hello", 5));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.status.error_message(), HasSubstr("shutting down"));
  ReleaseForwards();
  client.join();
  drain.join();
  EXPECT_TRUE(drained);
  EXPECT_EQ(running.Text(), Continuation(6, 20));
}

TEST_F(FailoverTest, TheEndOfTheDrainAbortsWhatIsLeft) {
  StartBoth();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 1000)); });
  AllowForwards(3);
  Eventually("some tokens are out", [&] { return metrics_.generation_tokens_total->Value() >= 1; });
  EXPECT_FALSE(router_->Drain(absl::ZeroDuration()));
  client.join();
  EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_NE(reply.Finish(), nullptr);
  EXPECT_EQ(reply.Finish()->reason(), v1::FINISH_REASON_ABORT);
}

TEST_F(FailoverTest, ShutdownDoesNotWaitForClients) {
  StartBoth();
  HoldForwards();
  Reply reply;
  std::thread client([&] { reply = Generate(TextRequest("Hello", 1000)); });
  Eventually("it runs", [&] { return router_->engine().replica_status().live_requests == 1; });
  router_.reset();
  client.join();
  EXPECT_FALSE(reply.status.ok());
}

TEST_F(FailoverTest, TwoRoutersCannotShareAPort) {
  StartBoth();
  router::RouterServerConfig config = router_config_;
  config.front.listeners = {FormatAddress(router_->address())};
  router::WorkerClientConfig no_worker;
  no_worker.address = "127.0.0.1:1";
  const auto loops = std::make_shared<router::GrpcLoops>(1);
  std::vector<router::ReplicaParts> replicas;
  replicas.push_back({.worker = no_worker.address,
                      .link = std::make_unique<router::GrpcStepLink>(no_worker, loops->Of(0)),
                      .policy = router::testing::MakeFcfsPolicy(),
                      .runner = loops->Of(0)});
  const auto second = router::RouterServer::Start(
      config, {.serving = {.model = model_, .metrics = metrics_, .clock = clock_},
               .replicas = std::move(replicas),
               .loops = loops,
               .registry = registry_});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message().data(), second.status().message().size()),
              HasSubstr("cannot listen on 127.0.0.1:"));
}

}  // namespace
}  // namespace lockstep::testing
