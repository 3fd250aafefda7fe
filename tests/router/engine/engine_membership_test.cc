// Workers that join and leave an engine while it runs, with all its threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/engine/engine_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::EngineTest;
using ::lockstep::router::testing::kModel;
using ::lockstep::router::testing::Running;
using ::lockstep::router::testing::StrandThread;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::GreedyTokens;
using ::lockstep::testing::ThreadedLink;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;

using Workers = std::vector<std::string>;

const FakeModelOptions kSmallModel = {.max_context_tokens = 64, .num_blocks = 48};

// Of a worker that is never reached.
class DeadLink final : public StepLink {
 public:
  void Start(LinkEventSink*) override {}
  void Send(worker::v1::StepRequest) override {}
  void DropLease(uint64_t, const absl::Status&) override {}
  void LeaveOrphans() override { leaves_orphans_.store(true); }
  void Stop() override {}

  bool leaves_orphans() const { return leaves_orphans_.load(); }

 private:
  std::atomic<bool> leaves_orphans_ = false;
};

class EngineMembershipTest : public EngineTest {
 protected:
  void StartEmpty(EngineConfig config = {}) {
    engine_ = std::make_unique<Engine>(config, std::vector<ReplicaParts>(), &clock_, &metrics_,
                                       [this] { OnReadinessChange(); });
  }

  // Returns the number of those that were left out.
  size_t Set(const Workers& workers) {
    return engine_->SetWorkers(workers, [this](const std::string& worker, uint32_t) {
      auto link = std::make_unique<ThreadedLink>(worker == "small:1" ? kSmallModel : kModel);
      link_of_[worker] = link.get();
      return ReplicaParts{.worker = worker,
                          .link = std::move(link),
                          .policy = testing::MakeFcfsPolicy(),
                          .runner = std::make_shared<StrandThread>()};
    });
  }

  // Until all of them, and no others, are there and those are ready.
  void SetUntilSettled(const Workers& workers) {
    const Instant give_up = clock_.Now() + absl::Seconds(60);
    while ((Set(workers) > 0 || NumReplicas() != workers.size() || NumReady() != workers.size()) &&
           clock_.Now() < give_up) {
      std::this_thread::yield();
    }
    ASSERT_EQ(NumReplicas(), workers.size());
  }

  size_t NumReplicas() { return engine_->replica_statuses().size(); }
  size_t NumReady() {
    return std::ranges::count(engine_->replica_statuses(), WorkerState::kReady,
                              &ReplicaStatus::worker_state);
  }

  std::string Scrape() { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

  void ExpectServes() {
    absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
    ASSERT_TRUE(running.ok()) << running.status();
    running->reader->ReadAll(*running->outbox);
    EXPECT_EQ(running->reader->end, absl::OkStatus());
    EXPECT_THAT(running->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {1, 2, 3}, 10)));
  }

  std::map<std::string, ThreadedLink*> link_of_;  // the latest of each
};

TEST_F(EngineMembershipTest, WithoutAnyWorkerRequestsAreRefused) {
  StartEmpty();
  EXPECT_FALSE(engine_->ready());
  const absl::StatusOr<Running> refused = Submit({1, 2, 3}, 10);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine_->replica_status().live_requests, 0u);
  SetUntilSettled({"a:1"});
  EXPECT_TRUE(engine_->ready());
  ExpectServes();
}

TEST_F(EngineMembershipTest, OneThatLeavesEndsWhatRunsAndTakesItsSeriesAlong) {
  StartEmpty();
  SetUntilSettled({"a:1"});
  link_of_["a:1"]->Pause();
  absl::StatusOr<Running> running = Submit({1, 2, 3}, 20);
  ASSERT_TRUE(running.ok());
  EXPECT_EQ(Set({"b:1", "b:1"}), 0u);
  EXPECT_EQ(NumReplicas(), 2u);
  EXPECT_THAT(Scrape(), HasSubstr("worker=\"a:1\""));
  link_of_["a:1"]->Resume();
  running->reader->ReadAll(*running->outbox);
  EXPECT_THAT(running->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {1, 2, 3}, 20)));
  SetUntilSettled({"b:1"});
  EXPECT_THAT(Scrape(), Not(HasSubstr("worker=\"a:1\"")));
  EXPECT_THAT(Scrape(), HasSubstr("worker=\"b:1\""));
  ExpectServes();
  ExpectNothingHeld();
}

TEST_F(EngineMembershipTest, NobodyLeavesBeforeSomebodyElseIsReady) {
  StartEmpty();
  SetUntilSettled({"a:1"});
  const auto never_up = [](const std::string& worker, uint32_t) {
    return ReplicaParts{.worker = worker,
                        .link = std::make_unique<DeadLink>(),
                        .policy = testing::MakeFcfsPolicy(),
                        .runner = std::make_shared<StrandThread>()};
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(engine_->SetWorkers({"b:1"}, never_up), 0u);
  EXPECT_EQ(NumReady(), 1u);
  ExpectServes();
  SetUntilSettled({"c:1"});
  ExpectServes();
}

TEST_F(EngineMembershipTest, WorkersOfOtherRoutersLeaveWhetherOneIsReadyOrNot) {
  StartEmpty();
  const auto of_another = [](const std::string& worker, uint32_t) {
    return ReplicaParts{.worker = worker,
                        .link = std::make_unique<DeadLink>(),
                        .policy = testing::MakeFcfsPolicy(),
                        .runner = std::make_shared<StrandThread>(),
                        .owner = WorkerOwner::kOther};
  };
  engine_->SetWorkers({"a:1", "b:1"}, of_another);
  const Instant give_up = clock_.Now() + absl::Seconds(60);
  while (NumReplicas() != 1 && clock_.Now() < give_up) {
    engine_->SetWorkers({"b:1"}, of_another);
    std::this_thread::yield();
  }
  EXPECT_EQ(NumReplicas(), 1u);
  EXPECT_THAT(Scrape(), Not(HasSubstr("worker=\"a:1\"")));
}

TEST_F(EngineMembershipTest, ADrainLeavesOrphansToOtherRouters) {
  StartEmpty();
  DeadLink* link = nullptr;
  engine_->SetWorkers({"a:1"}, [&link](const std::string& worker, uint32_t) {
    auto made = std::make_unique<DeadLink>();
    link = made.get();
    return ReplicaParts{.worker = worker,
                        .link = std::move(made),
                        .policy = testing::MakeFcfsPolicy(),
                        .runner = std::make_shared<StrandThread>(),
                        .owner = WorkerOwner::kOther};
  });
  ASSERT_NE(link, nullptr);
  EXPECT_FALSE(link->leaves_orphans());
  engine_->StartDrain();
  EXPECT_TRUE(link->leaves_orphans());
}

TEST_F(EngineMembershipTest, ThereAreNoMoreThanSeats) {
  EngineConfig config;
  config.max_replicas = 2;
  StartEmpty(config);
  EXPECT_EQ(Set({"a:1", "b:1", "c:1"}), 1u);
  EXPECT_EQ(NumReplicas(), 2u);
  SetUntilSettled({"a:1", "b:1"});
  SetUntilSettled({"b:1", "c:1"});
  ExpectServes();
}

// Those that are too large for the rest wait for it, so they must not be refused before.
TEST_F(EngineMembershipTest, RequestsAreMeasuredByAWorkerThatMayComeBack) {
  for (const bool may_come_back : {true, false}) {
    EngineConfig config;
    config.replica.no_worker_grace = may_come_back ? absl::Hours(1) : absl::ZeroDuration();
    StartEmpty(config);
    SetUntilSettled({"large:1", "small:1"});
    link_of_["large:1"]->Kill();
    while (NumReady() > 1) std::this_thread::yield();
    EXPECT_EQ(engine_->replica_status().worker_state, WorkerState::kReady);
    EXPECT_EQ(engine_->replica_status().description.max_context_tokens(),
              may_come_back ? kModel.max_context_tokens : kSmallModel.max_context_tokens);
    while (engine_->largest_worker()->max_context_tokens() !=
           engine_->replica_status().description.max_context_tokens()) {
      std::this_thread::yield();  // a second at most
    }
  }
}

TEST_F(EngineMembershipTest, AllOfThemAreReplacedAgainAndAgainUnderClients) {
  StartEmpty();
  SetUntilSettled({"w0:1", "w1:1"});
  Mutex mutex;
  RunClients(/*requests_each=*/40, [this, &mutex](int count) {
    // One thread at a time, as if a resolver had answered; nobody leaves before somebody else is
    // ready, as WorkerDiscovery has it.
    MutexLock lock(mutex);
    const int first = count / 4 % 5;
    SetUntilSettled(
        {"w" + std::to_string(first) + ":1", "w" + std::to_string((first + 1) % 5) + ":1"});
  });
  SetUntilSettled({"w0:1", "w3:1"});
  ExpectServes();
  ExpectNothingHeld();
}

}  // namespace
}  // namespace lockstep::router
