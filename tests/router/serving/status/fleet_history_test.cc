#include "router/serving/status/fleet_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/instant.h"

namespace lockstep::router {
namespace {

ReplicaStatus Replica(const std::string& worker, uint32_t running, uint64_t prefill_tokens,
                      uint64_t decode_tokens) {
  ReplicaStatus status;
  status.worker = worker;
  status.worker_state = WorkerState::kReady;
  status.scheduler.running_sequences = running;
  status.scheduler.waiting_requests = 1;
  status.scheduler.used_blocks = 10;
  status.scheduler.fenced_blocks = 1;
  status.scheduler.cached_blocks = 20;
  status.scheduler.free_blocks = 30;
  status.scheduler.planned_prefill_tokens = prefill_tokens;
  status.scheduler.planned_decode_tokens = decode_tokens;
  return status;
}

const Instant kSampledFirst = Instant::After(absl::Seconds(1000));

TEST(FleetHistoryTest, ASampleIsDueEverySecond) {
  FleetHistory history;
  EXPECT_TRUE(history.Due(kSampledFirst));
  history.Add({}, kSampledFirst);
  EXPECT_FALSE(history.Due(kSampledFirst + absl::Milliseconds(999)));
  EXPECT_TRUE(history.Due(kSampledFirst + absl::Seconds(1)));
}

TEST(FleetHistoryTest, AddsReplicasUpAndShowsEach) {
  FleetHistory history;
  history.Add({Replica("a", 2, 100, 10), Replica("b", 3, 200, 20)}, kSampledFirst);
  history.Add({Replica("a", 4, 150, 15), Replica("b", 5, 260, 26)},
              kSampledFirst + absl::Seconds(1));
  const FleetHistory::View view = history.view();
  EXPECT_EQ(view.number, 2u);
  EXPECT_EQ(view.num_replicas, 2u);
  ASSERT_EQ(view.replicas.size(), 2u);
  EXPECT_EQ(view.replicas[1].worker, "b");
  EXPECT_EQ(view.replicas[1].running, 5u);
  EXPECT_EQ(view.replicas[1].used_blocks, 11u) << "fenced ones are not free";
  EXPECT_TRUE(view.replicas[1].further_groups.empty());
  ASSERT_EQ(view.samples.size(), 2u);
  EXPECT_EQ(view.samples[0].running, 5u);
  EXPECT_EQ(view.samples[1].running, 9u);
  EXPECT_EQ(view.samples[1].waiting, 2u);
  EXPECT_EQ(view.samples[1].prefill_tokens, 110u);
  EXPECT_EQ(view.samples[1].decode_tokens, 11u);
  EXPECT_EQ(view.samples[1].cached_blocks, 40u);
  EXPECT_EQ(view.samples[1].total_blocks, 122u);
}

TEST(FleetHistoryTest, AReplicaThatIsGoneTakesNoTokensBack) {
  FleetHistory history;
  history.Add({Replica("a", 0, 100, 10), Replica("b", 0, 200, 20)}, kSampledFirst);
  history.Add({Replica("a", 0, 110, 11)}, kSampledFirst + absl::Seconds(1));
  EXPECT_EQ(history.view().samples.back().prefill_tokens, 0u);
}

TEST(FleetHistoryTest, KeepsFiveMinutesAndShowsSixtyFourReplicas) {
  FleetHistory history;
  const std::vector<ReplicaStatus> many(100, Replica("a", 1, 0, 0));
  for (uint32_t i = 0; i < 2 * FleetHistory::kMaxSamples; ++i) {
    history.Add({Replica("a", i, 0, 0)}, kSampledFirst + absl::Seconds(i));
  }
  history.Add(many, kSampledFirst + absl::Hours(1));
  const FleetHistory::View view = history.view();
  ASSERT_EQ(view.samples.size(), FleetHistory::kMaxSamples);
  EXPECT_EQ(view.samples.front().running, FleetHistory::kMaxSamples + 1);
  EXPECT_EQ(view.samples.back().running, 100u);
  EXPECT_EQ(view.num_replicas, 100u);
  EXPECT_EQ(view.replicas.size(), FleetHistory::kMaxReplicas);
}

}  // namespace
}  // namespace lockstep::router
