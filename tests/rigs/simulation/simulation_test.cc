// The router's core and engine on a virtual clock; every bound holds or fails for ever.
#include "tests/rigs/simulation/simulation.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <string_view>
#include <utility>
#include <vector>

#include "tests/rigs/simulation/settings.h"

namespace lockstep::bench {
namespace {

// Of each trace, where a test does not say less. Hit ratios of far fewer would say little.
constexpr uint32_t kNumRequests = 5000;

class SimulationTest : public ::testing::Test {
 protected:
  SimulationTest() { spdlog::set_level(spdlog::level::off); }  // every fault would be a line
  ~SimulationTest() override { spdlog::set_level(spdlog::level::info); }

  static SimulationOptions Setting(std::string_view name) { return FindSetting(name).value(); }

  // Every stream is the one of an undisturbed run, no token twice, none missing, all at their end.
  static void ExpectAllServed(const SimulationReport& report) {
    EXPECT_GT(report.all.num_requests, 0u);
    EXPECT_EQ(report.all.num_refused, 0u);
    EXPECT_EQ(report.all.num_failed, 0u);
    EXPECT_EQ(report.all.num_unfinished, 0u);
    EXPECT_EQ(report.all.num_wrong_tokens, 0u);
    EXPECT_EQ(report.all.num_extra_tokens, 0u);
    EXPECT_EQ(report.all.num_missing_tokens, 0u);
    EXPECT_EQ(report.num_leaked, 0u);
  }

  static uint64_t NumFaults(const SimulationReport& report) {
    uint64_t sum = 0;
    for (const SimulatedWorker::Totals& worker : report.workers) sum += worker.num_faults;
    return sum;
  }
};

SimulationOptions ManyFaults() {
  SimulationOptions options = *FindSetting("faults");
  options.traces[0].num_requests = kNumRequests;
  options.faults.mean_between = absl::Seconds(20);
  return options;
}

TEST_F(SimulationTest, ClientsDoNotNoticeFailingWorkers) {
  const SimulationReport report = Simulate(ManyFaults());
  ExpectAllServed(report);
  EXPECT_GT(NumFaults(report), kNumRequests / 100);
}

// A second KV group with a window, whose pool is too small for all sequences at once.
TEST_F(SimulationTest, ClientsDoNotNoticeAWindow) {
  for (const uint32_t window_blocks : {128u, 1024u}) {
    SCOPED_TRACE(window_blocks);
    SimulationOptions options = ManyFaults();
    options.traces[0].num_requests /= 2;
    options.worker.window_tokens = 500;
    options.worker.window_blocks = window_blocks;
    const SimulationReport report = Simulate(options);
    ExpectAllServed(report);
    EXPECT_GT(NumFaults(report), 5u);
    EXPECT_GT(report.all.hit_ratio(), 0.0);
  }
}

TEST_F(SimulationTest, OneKindOfFaultAtATime) {
  using Weight = uint32_t FaultOptions::*;
  constexpr std::pair<const char*, Weight> kKinds[] = {{"crashes", &FaultOptions::crashes},
                                                       {"hangs", &FaultOptions::hangs},
                                                       {"partitions", &FaultOptions::partitions},
                                                       {"stragglers", &FaultOptions::stragglers},
                                                       {"drains", &FaultOptions::drains}};
  for (const auto& [name, kind] : kKinds) {
    SCOPED_TRACE(name);
    SimulationOptions options = ManyFaults();
    options.traces[0].num_requests /= 5;
    options.num_workers = 6;
    options.faults.mean_between = absl::Seconds(15);
    for (const auto& [other_name, other] : kKinds) options.faults.*other = other == kind ? 1 : 0;
    const SimulationReport report = Simulate(options);
    ExpectAllServed(report);
    EXPECT_GT(NumFaults(report), 5u);
  }
}

TEST_F(SimulationTest, ASeedIsAHistory) {
  SimulationOptions options = ManyFaults();
  options.traces[0].num_requests /= 2;
  const uint64_t hash = Simulate(options).hash;
  EXPECT_EQ(Simulate(options).hash, hash);
  ++options.seed;
  EXPECT_NE(Simulate(options).hash, hash);
}

TEST_F(SimulationTest, RowsThatKeepRandomNumbersOfTokensChangeNoText) {
  SimulationOptions options = ManyFaults();
  options.traces[0].num_requests /= 2;
  const SimulationReport plain = Simulate(options);
  options.worker.max_draft_tokens = 4;
  options.replica.scheduler.max_draft_tokens = 3;
  options.replica.scheduler.adaptive_drafts = false;
  const SimulationReport drafted = Simulate(options);
  ExpectAllServed(drafted);
  EXPECT_EQ(drafted.all.num_output_tokens, plain.all.num_output_tokens);
  uint64_t num_kept = 0;
  for (const SimulatedWorker::Totals& worker : drafted.workers) num_kept += worker.num_kept_drafts;
  EXPECT_GT(num_kept, drafted.all.num_output_tokens / 4);
  EXPECT_GT(NumFaults(drafted), 10u);
}

// The router decides how many drafts pay.
TEST_F(SimulationTest, DraftsPayOrStop) {
  SimulationOptions options = ManyFaults();
  options.traces[0].num_requests /= 2;
  const auto busy = [](const SimulationReport& report) {
    absl::Duration sum;
    for (const SimulatedWorker::Totals& worker : report.workers) sum += worker.busy;
    return absl::ToDoubleSeconds(sum);
  };
  const auto drafted = [](const SimulationReport& report) {
    uint64_t sum = 0;
    for (const SimulatedWorker::Totals& worker : report.workers) sum += worker.num_drafted;
    return static_cast<double>(sum);
  };
  const SimulationReport plain = Simulate(options);
  options.worker.max_draft_tokens = 8;
  options.replica.scheduler.max_draft_tokens = 8;
  options.worker.draft_chance = 0;
  const SimulationReport wrong = Simulate(options);
  ExpectAllServed(wrong);
  EXPECT_GT(drafted(wrong), 0.0) << "probes";
  // Probes take about one percent of the time. A draft is cheap here, so that is many.
  EXPECT_LT(drafted(wrong) * absl::ToDoubleSeconds(options.worker.step_per_token),
            0.015 * busy(wrong));
  options.worker.draft_chance = 0.9;
  const SimulationReport right = Simulate(options);
  ExpectAllServed(right);
  EXPECT_GT(drafted(right), static_cast<double>(right.all.num_output_tokens));
  EXPECT_LT(busy(right), 0.8 * busy(plain));
  EXPECT_LT(busy(wrong), 1.05 * busy(plain));
}

TEST_F(SimulationTest, AConversationThatStaysAtItsRouterKeepsItsPrefix) {
  SimulationOptions options = Setting("chat");
  options.traces[0].num_requests = kNumRequests;
  const double alone = Simulate(options).all.hit_ratio();
  options.num_routers = 4;
  const SimulationReport scattered = Simulate(options);
  ExpectAllServed(scattered);
  EXPECT_EQ(scattered.workers_of_router, std::vector<uint32_t>(4, 2));
  EXPECT_LT(scattered.all.hit_ratio(), 0.5 * alone);
  options.spreading = Spreading::kConversation;
  const SimulationReport together = Simulate(options);
  ExpectAllServed(together);
  EXPECT_GT(together.all.hit_ratio(), 0.95 * alone);
}

// Less of each setting than lockstep-router-simulate runs.
class PlacementSimulationTest : public SimulationTest,
                                public ::testing::WithParamInterface<const char*> {};

TEST_P(PlacementSimulationTest, HitsNearlyWhatASharedCacheWould) {
  SimulationOptions options = Setting(GetParam());
  options.traces[0].num_requests = kNumRequests;
  const SimulationReport prefix = Simulate(options);
  ExpectAllServed(prefix);
  EXPECT_GE(prefix.all.hit_ratio(), 0.95 * prefix.shared_cache_hit_ratio);
  EXPECT_LE(prefix.all.hit_ratio(), prefix.shared_cache_hit_ratio);
  EXPECT_LE(prefix.work_imbalance(), 1.3);

  options.placement.policy = router::PlacementPolicy::kRoundRobin;
  const SimulationReport round_robin = Simulate(options);
  ExpectAllServed(round_robin);
  EXPECT_EQ(round_robin.shared_cache_hit_ratio, prefix.shared_cache_hit_ratio);
  if (round_robin.all.hit_ratio() < 0.3) {
    EXPECT_GE(prefix.all.hit_ratio(), 3 * round_robin.all.hit_ratio());
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, PlacementSimulationTest,
                         ::testing::Values("assistants", "chat", "hot"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(SimulationTest, ASmallTenantHardlyNoticesALargeOne) {
  const SimulationReport alone = Simulate(Setting("fairness-alone"));
  const SimulationReport beside = Simulate(Setting("fairness"));
  ExpectAllServed(alone);
  ExpectAllServed(beside);
  absl::Duration busy;
  int64_t num_steps = 0;
  for (const SimulatedWorker::Totals& worker : beside.workers) {
    busy += worker.busy;
    num_steps += static_cast<int64_t>(worker.num_steps);
  }
  const double step_seconds = absl::ToDoubleSeconds(busy / num_steps);
  const double small = beside.by_trace[0].FirstToken(0.99);
  EXPECT_LE(small, 2 * alone.by_trace[0].FirstToken(0.99) + 3 * step_seconds);
  EXPECT_GT(beside.by_trace[1].FirstToken(0.99), 10 * small) << "the large one has to wait";
}

}  // namespace
}  // namespace lockstep::bench
