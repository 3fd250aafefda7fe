#include "router/workers/link/grpc_step_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <variant>
#include <vector>

#include "common/status.h"
#include "common/step_message.h"
#include "tests/router/workers/link/grpc_step_link_fixture.h"

namespace lockstep::router {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(GrpcStepLinkTest, ALeaseWhoseGrantWasLostIsOurs) {
  FakeWorker worker({Fate::kAnswerLost});
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.Start(&events);
  ASSERT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ElementsAre(false, true));
}

TEST_F(GrpcStepLinkTest, AClaimThatWasLostDoesNotDisownTheLeaseBefore) {
  FakeWorker worker({Fate::kAnswered, Fate::kLost, Fate::kLost});
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.Start(&events);
  const auto first = events.Next<LinkUp>();
  ASSERT_NE(first, nullptr);
  link.DropLease(first->epoch, absl::UnavailableError("the test has had enough"));
  const auto second = events.Next<LinkUp>();
  ASSERT_NE(second, nullptr);
  EXPECT_GT(second->epoch, first->epoch);
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ElementsAre(false, true, true, true));
}

TEST_F(GrpcStepLinkTest, HoweverManyClaimsAreLost) {
  std::deque<Fate> fates(100, Fate::kLost);
  fates.push_front(Fate::kAnswerLost);
  FakeWorker worker(fates);
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.Start(&events);
  EXPECT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
}

TEST_F(GrpcStepLinkTest, AClaimThatWasRefusedIsNotOurs) {
  FakeWorker worker({Fate::kForestalled, Fate::kAnswered, Fate::kForestalled});
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.Start(&events);
  for (int i = 0; i < 4; ++i) {
    const auto refused = events.Next<LinkDown>();
    ASSERT_NE(refused, nullptr);
    EXPECT_THAT(Message(refused->reason), HasSubstr("another router holds the lease"));
  }
  link.Stop();
  EXPECT_THAT(worker.takeovers(), Each(false));
}

TEST_F(GrpcStepLinkTest, AnothersLeaseIsRespectedUnlessToldOtherwise) {
  FakeWorker worker({Fate::kLost});
  worker.GrantToAnother(7);
  Events events;
  WorkerClientConfig config = Config(worker);
  {
    GrpcStepLink link(config, loops_.Of(0));
    link.Start(&events);
    // The first attempt is lost; the second is refused.
    ASSERT_NE(events.Next<LinkDown>(), nullptr);
    const auto refused = events.Next<LinkDown>();
    ASSERT_NE(refused, nullptr);
    EXPECT_THAT(Message(refused->reason), HasSubstr("another router holds the lease"));
    link.Stop();
  }
  const std::vector<bool> takeovers = worker.takeovers();
  EXPECT_EQ(std::count(takeovers.begin(), takeovers.end(), true), 0);
  config.takeover = true;
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  EXPECT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
}

TEST_F(GrpcStepLinkTest, OneThatTookOverIsFencedInItsTurn) {
  FakeWorker worker({});
  Events events;
  WorkerClientConfig config = Config(worker);
  config.takeover = true;
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  const auto up = events.Next<LinkUp>();
  ASSERT_NE(up, nullptr);
  worker.GrantToAnother(up->epoch + 1);
  link.DropLease(up->epoch, absl::UnavailableError("fenced"));
  ASSERT_NE(events.Next<LinkDown>(), nullptr);
  const auto refused = events.Next<LinkDown>();
  ASSERT_NE(refused, nullptr);
  EXPECT_THAT(Message(refused->reason), HasSubstr("another router holds the lease"));
  link.Stop();
}

TEST(WorkerClientConfigTest, TakesNoMessagesThatAreTooSmallForAStep) {
  WorkerClientConfig config;
  config.address = "127.0.0.1:1";
  EXPECT_TRUE(config.Validate().ok()) << config.Validate();
  config.max_message_bytes = (kMaxStepMessageMib << 20) - 1;
  EXPECT_THAT(Message(config.Validate()), HasSubstr("max_message_bytes: must be at least"));
}

TEST_F(GrpcStepLinkTest, WhyAWorkerIsNotReachedIsSaid) {
  WorkerClientConfig config;
  {
    const FakeWorker gone({});
    config.address = gone.address();
  }
  Events events;
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  const auto down = events.Next<LinkDown>();
  ASSERT_NE(down, nullptr);
  EXPECT_THAT(Message(down->reason), HasSubstr("Connection refused\""));
  link.Stop();
}

TEST_F(GrpcStepLinkTest, AWorkerWhoseEpochsJumpedIsTakenOverAllTheSame) {
  FakeWorker worker({});
  worker.GrantToAnother(kFreeEpochs + 5);
  Events events;
  WorkerClientConfig config = Config(worker);
  config.takeover = true;
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  const auto up = events.Next<LinkUp>();
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->epoch, kFreeEpochs + 6);
  // In another life of the worker nobody has jumped.
  worker.GrantToAnother(0);
  link.DropLease(up->epoch, absl::UnavailableError("the worker died"));
  const auto again = events.Next<LinkUp>();
  ASSERT_NE(again, nullptr);
  EXPECT_LE(again->epoch, kFreeEpochs);
  link.Stop();
}

TEST_F(GrpcStepLinkTest, AWorkerWithOtherWeightsIsNotClaimedAndTriedAgain) {
  FakeWorker worker({});
  worker.SetWeights(9);
  Events events;
  WorkerClientConfig config = Config(worker);
  config.agreement = std::make_shared<WorkerAgreement>(AgreementConfig{.weights_fingerprint = 2});
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  const auto down = events.Next<LinkDown>();
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->epoch, 0u);
  EXPECT_EQ(down->reason.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(down->reason), HasSubstr("weights_fingerprint: expected 0000000000000002"));
  EXPECT_THAT(worker.takeovers(), ::testing::IsEmpty());
  worker.SetWeights(2);
  EXPECT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
}

// The link has looked at the worker that often.
void ExpectLooks(const FakeWorker& worker, uint32_t num_looks) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (worker.num_looks() < num_looks && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_GE(worker.num_looks(), num_looks);
}

WorkerClientConfig StandInConfig(const FakeWorker& worker) {
  WorkerClientConfig config = Config(worker);
  config.shard_rank = 1;
  config.orphan_wait = absl::Milliseconds(20);
  config.takeover = true;  // is for workers of our own
  return config;
}

TEST_F(GrpcStepLinkTest, AStandInLeavesALivingLeaseAlone) {
  FakeWorker worker({});
  worker.GrantToAnother(7);
  Events events;
  GrpcStepLink link(StandInConfig(worker), loops_.Of(0));
  link.Start(&events);
  const auto standby = events.Next<LinkStandby>();
  ASSERT_NE(standby, nullptr);
  EXPECT_THAT(standby->text, HasSubstr("another router serves the worker"));
  EXPECT_TRUE(standby->served);
  ExpectLooks(worker, 3);
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ::testing::IsEmpty());
}

TEST_F(GrpcStepLinkTest, OnlyAWorkerThatIsToBeClaimedMustAgreeWithOthers) {
  FakeWorker worker({});
  worker.SetWeights(9);
  worker.GrantToAnother(7);
  Events events;
  WorkerClientConfig config = StandInConfig(worker);
  config.agreement = std::make_shared<WorkerAgreement>(AgreementConfig{.weights_fingerprint = 2});
  GrpcStepLink link(config, loops_.Of(0));
  link.Start(&events);
  // Attempts to connect may fail, which is no mismatch.
  const auto next = [&events] {
    for (;;) {
      auto event = events.Next<LinkEvent>();
      const auto* const down = event == nullptr ? nullptr : std::get_if<LinkDown>(event.get());
      if (down == nullptr || absl::IsFailedPrecondition(down->reason)) return event;
    }
  };
  const auto first = next();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(std::holds_alternative<LinkStandby>(*first));
  worker.EndLease();
  EXPECT_NE(events.Next<LinkStandby>(), nullptr);
  const auto last = next();
  ASSERT_NE(last, nullptr);
  ASSERT_TRUE(std::holds_alternative<LinkDown>(*last));
  EXPECT_THAT(Message(std::get<LinkDown>(*last).reason),
              HasSubstr("weights_fingerprint: expected 0000000000000002"));
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ::testing::IsEmpty());
}

TEST_F(GrpcStepLinkTest, ARouterThatDrainsLeavesOrphansToOthers) {
  FakeWorker worker({});
  Events events;
  GrpcStepLink link(StandInConfig(worker), loops_.Of(0));
  link.LeaveOrphans();
  link.Start(&events);
  const auto standby = events.Next<LinkStandby>();
  ASSERT_NE(standby, nullptr);
  EXPECT_FALSE(standby->served);
  ExpectLooks(worker, 5);  // at the third, the wait is over
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ::testing::IsEmpty());
}

TEST_F(GrpcStepLinkTest, ARouterThatDrainsClaimsItsOwnWorkers) {
  FakeWorker worker({});
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.LeaveOrphans();
  link.Start(&events);
  EXPECT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
}

TEST_F(GrpcStepLinkTest, AStandInTakesAnOrphanAndSaysThatItStandsIn) {
  FakeWorker worker({});
  worker.GrantToAnother(7);
  Events events;
  GrpcStepLink link(StandInConfig(worker), loops_.Of(0));
  link.Start(&events);
  ASSERT_NE(events.Next<LinkStandby>(), nullptr);
  worker.EndLease();
  ASSERT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ElementsAre(false));
  EXPECT_THAT(worker.stand_ins(), ElementsAre(true));
}

TEST_F(GrpcStepLinkTest, AStandInTakesUpItsOwnLeaseAgain) {
  FakeWorker worker({});
  Events events;
  GrpcStepLink link(StandInConfig(worker), loops_.Of(0));
  link.Start(&events);
  const auto up = events.Next<LinkUp>();
  ASSERT_NE(up, nullptr);
  // The worker has not noticed that the stream ended.
  link.DropLease(up->epoch, absl::UnavailableError("the stream broke"));
  ASSERT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
  EXPECT_THAT(worker.takeovers(), ElementsAre(false, true));
  EXPECT_THAT(worker.stand_ins(), ElementsAre(true, true));
}

TEST_F(GrpcStepLinkTest, AnOwnerClaimsAtOnceAndStandsInForNobody) {
  FakeWorker worker({});
  Events events;
  GrpcStepLink link(Config(worker), loops_.Of(0));
  link.Start(&events);
  ASSERT_NE(events.Next<LinkUp>(), nullptr);
  link.Stop();
  EXPECT_THAT(worker.stand_ins(), ElementsAre(false));
}

}  // namespace
}  // namespace lockstep::router
