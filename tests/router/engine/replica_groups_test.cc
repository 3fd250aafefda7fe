// A replica whose worker has two KV groups. The worker's model aborts when it would read a window
// block that does not hold the KV of the sequence's own text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::lockstep::testing::FakeModelWithWindow;
using ::lockstep::testing::GreedyTokens;

std::vector<TokenId> RandomTokens(size_t count, std::mt19937_64& random) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 40);
  return tokens;
}

class ReplicaGroupsTest : public ReplicaTest {
 protected:
  ReplicaGroupsTest() : ReplicaTest(WorkerOwner::kSelf, FakeModelWithWindow()) {}

  BlockCounts WindowBlocks() const {
    const SchedulerStats stats = replica_.board().status().scheduler;
    return stats.further_groups.empty() ? BlockCounts() : stats.further_groups.front();
  }
  double WindowGauge(const char* state) {
    return prometheus::BuildGauge()
        .Name("lockstep_router_kv_group_blocks")
        .Labels({{"model", "fake"}})
        .Register(registry_)
        .Add({{"group", "1"}, {"state", state}})
        .Value();
  }
};

// The pool of the window has 24 blocks, too few for the windows of eight sequences at once.
TEST_F(ReplicaGroupsTest, LongSequencesShareASmallWindowPool) {
  Connect();
  std::mt19937_64 random(1);
  const std::vector<TokenId> stem = RandomTokens(60, random);
  std::vector<std::unique_ptr<Client>> clients;
  for (uint32_t i = 0; i < 24; ++i) {
    std::vector<TokenId> prompt(stem.begin(), stem.begin() + 1 + random() % 60);
    if (i % 2 == 0) prompt.back() = static_cast<TokenId>(random() % 40);
    clients.push_back(Submit(std::move(prompt), 60));
    const int num_steps = static_cast<int>(random() % 20);
    for (int step = 0; step < num_steps; ++step) RunStep();
    if (i == 8 || i == 16) {
      LoseWorker();
      worker_.Restart();
      Connect();
    }
  }
  RunUntilIdle();
  for (const std::unique_ptr<Client>& client : clients) {
    client->Read();
    EXPECT_EQ(client->end, absl::OkStatus());
    EXPECT_EQ(client->tokens[0],
              GreedyTokens(FakeModelWithWindow(), client->request->prompt_tokens, 60));
  }
  EXPECT_GT(replica_.board().status().scheduler.preemptions, 0u);
  EXPECT_GT(metrics_.prefix_cache_hit_tokens_total->Value(), 0);
  AdvanceBy(kIdleCheck);
  ExpectClean();
  const BlockCounts window = WindowBlocks();
  EXPECT_EQ(window.used + window.fenced, 0u);
  EXPECT_EQ(window.free + window.cached, 24u);
}

TEST_F(ReplicaGroupsTest, CountsTheBlocksOfEveryGroup) {
  Connect();
  EXPECT_EQ(WindowGauge("free"), 24);
  const auto client = Submit(std::vector<TokenId>(9, 7), 4);
  RunSteps(1);
  EXPECT_EQ(WindowGauge("used"), WindowBlocks().used);
  EXPECT_GT(WindowGauge("used"), 0);
  EXPECT_EQ(metrics_.kv_blocks[0]->Value() + metrics_.kv_blocks[1]->Value(), 64)
      << "of the first group alone";
  RunUntilIdle();
  EXPECT_EQ(WindowGauge("used"), 0);
  EXPECT_EQ(WindowGauge("free") + WindowGauge("cached"), 24);
  LoseWorker();
  EXPECT_EQ(WindowGauge("free") + WindowGauge("cached"), 0) << "it left with its blocks";
}

// The contract refuses such a worker (worker_contract_test.cc). If it comes this far, it is only
// mismatched.
class ReplicaSmallWindowTest : public ReplicaTest {
 protected:
  static FakeModelOptions SmallWindow() {
    FakeModelOptions options = FakeModelWithWindow();
    options.further_groups.front().num_blocks = 4;  // three in the window, and one more
    return options;
  }
  ReplicaSmallWindowTest() : ReplicaTest(WorkerOwner::kSelf, SmallWindow()) {}
};

TEST_F(ReplicaSmallWindowTest, AWorkerWithoutRoomForAWindowIsMismatched) {
  Connect();
  EXPECT_EQ(WorkerIs(WorkerState::kMismatched), 1);
  EXPECT_THAT(replica_.board().status().worker_text,
              ::testing::HasSubstr("kv_groups[1]: num_blocks is 4"));
}

}  // namespace
}  // namespace lockstep::router::testing
