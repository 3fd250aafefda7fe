#include "router/workers/link/grpc_step_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "common/lease_epoch.h"
#include "common/runtime/mutex.h"
#include "common/status.h"
#include "common/step_message.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"

namespace lockstep::router {
namespace {

namespace wire = worker::v1;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kIncarnation = 4711;
constexpr std::chrono::seconds kPatience(30);

// What becomes of a claim.
enum class Fate {
  kAnswered,     // granted, or refused
  kLost,         // never reaches the worker
  kAnswerLost,   // is dealt with, but the router never learns how
  kForestalled,  // another router's claim of the same epoch comes first
};

// A worker as the step protocol has it, over a network that loses what the test says, and that
// never tells it of a stream's end: a lease lives until it is taken over.
class FakeWorker final : public wire::Worker::Service {
 public:
  explicit FakeWorker(std::deque<Fate> fates) : fates_(std::move(fates)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeWorker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  // A lease of somebody else.
  void GrantToAnother(uint64_t epoch) {
    MutexLock lock(mutex_);
    live_epoch_ = epoch;
  }

  // The lease of somebody else ends, and the worker knows.
  void EndLease() {
    MutexLock lock(mutex_);
    ended_epoch_ = std::exchange(live_epoch_, 0);
  }

  uint32_t num_looks() const {
    MutexLock lock(mutex_);
    return num_looks_;
  }
  std::vector<bool> stand_ins() const {
    MutexLock lock(mutex_);
    return stand_ins_;
  }

  void SetWeights(uint64_t fingerprint) {
    MutexLock lock(mutex_);
    weights_fingerprint_ = fingerprint;
  }

  std::vector<bool> takeovers() const {
    MutexLock lock(mutex_);
    return takeovers_;
  }

 private:
  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest*,
                        wire::DescribeResponse* response) override {
    MutexLock lock(mutex_);
    response->set_protocol_version(kStepProtocolVersion);
    response->set_incarnation(kIncarnation);
    response->set_weights_fingerprint(weights_fingerprint_);
    response->set_last_epoch(std::max(live_epoch_, ended_epoch_));
    response->set_live_epoch(live_epoch_);
    ++num_looks_;
    wire::KvGroup* const group = response->add_kv_groups();
    group->set_block_size_tokens(16);
    group->set_num_blocks(8);
    response->set_max_slots(1);
    response->set_max_step_tokens(1);
    response->set_max_context_tokens(1);
    response->set_max_steps_in_flight(1);
    return grpc::Status::OK;
  }

  grpc::Status Execute(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<wire::StepResult, wire::StepRequest>* stream) override {
    const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "the network failed");
    wire::StepRequest claim;
    if (!stream->Read(&claim)) return lost;
    const Fate fate = NextFate(claim);
    if (fate == Fate::kLost) return lost;
    if (fate == Fate::kForestalled) GrantToAnother(claim.epoch());
    const grpc::Status verdict = Grant(claim);
    if (fate == Fate::kAnswerLost) return lost;
    if (!verdict.ok()) return verdict;
    wire::StepResult answer;
    answer.set_epoch(claim.epoch());
    answer.set_incarnation(kIncarnation);
    stream->Write(answer);
    wire::StepRequest step;
    while (stream->Read(&step)) {
    }
    return grpc::Status::OK;
  }

  Fate NextFate(const wire::StepRequest& claim) {
    MutexLock lock(mutex_);
    takeovers_.push_back(claim.claim().takeover());
    stand_ins_.push_back(claim.claim().stand_in());
    if (fates_.empty()) return Fate::kAnswered;
    const Fate fate = fates_.front();
    fates_.pop_front();
    return fate;
  }

  grpc::Status Grant(const wire::StepRequest& claim) {
    MutexLock lock(mutex_);
    if (claim.epoch() <= live_epoch_ || claim.epoch() > HighestClaimableEpoch(live_epoch_) ||
        (live_epoch_ != 0 && !claim.claim().takeover())) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "another router holds the lease"};
    }
    live_epoch_ = claim.epoch();
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mutex_;
  std::deque<Fate> fates_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> takeovers_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> stand_ins_ ABSL_GUARDED_BY(mutex_);
  uint64_t live_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t num_looks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t weights_fingerprint_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Keeps what the link says until the test asks.
class Events final : public LinkEventSink {
 public:
  void OnLinkEvent(LinkEvent event) override {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.NotifyAll();
  }
  // Passes over others; null when none of that kind came. LinkEvent: of any kind.
  template <typename Kind>
  std::unique_ptr<Kind> Next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    for (;;) {
      while (!events_.empty()) {
        LinkEvent event = std::move(events_.front());
        events_.pop_front();
        if constexpr (std::is_same_v<Kind, LinkEvent>) {
          return std::make_unique<LinkEvent>(std::move(event));
        } else if (auto* const found = std::get_if<Kind>(&event)) {
          return std::make_unique<Kind>(std::move(*found));
        }
      }
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds::zero()) return nullptr;
      changed_.WaitFor(mutex_, left);
    }
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<LinkEvent> events_ ABSL_GUARDED_BY(mutex_);
};

WorkerClientConfig Config(const FakeWorker& worker) {
  WorkerClientConfig config;
  config.address = worker.address();
  config.min_backoff = absl::Milliseconds(1);
  config.max_backoff = absl::Milliseconds(5);
  return config;
}

class GrpcStepLinkTest : public ::testing::Test {
 protected:
  GrpcLoops loops_{1};  // outlives the links
};

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
