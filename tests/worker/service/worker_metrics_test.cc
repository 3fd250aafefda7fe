#include "worker/service/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

TEST(WorkerMetricsTest, GraphsAreCounted) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, ForwardModelInfo());
  const v1::StepResult result;
  metrics.RecordStep(result, {.num_decode_rows = 1, .num_graph_replays = 5, .num_graph_misses = 1});
  metrics.RecordStep(result, {.num_decode_rows = 1, .num_graph_replays = 3, .num_graph_misses = 0});
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_cuda_graph_replays_total 8\n"));
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_cuda_graph_misses_total 1\n"));
}

TEST(WorkerMetricsTest, StepsCountByWhatTheirRowsDid) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry, ForwardModelInfo());
  const v1::StepResult result;
  metrics.RecordStep(result, {.num_prefill_rows = 2});
  metrics.RecordStep(result, {.num_prefill_rows = 2, .num_decode_rows = 1});
  metrics.RecordStep(result, {});  // moved slots only
  metrics.RecordStep(result, {.num_decode_rows = 1, .refused = true});
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_steps_total{kind=\"prefill\"} 1\n"));
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_steps_total{kind=\"mixed\"} 1\n"));
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_steps_total{kind=\"decode\"} 0\n"));
  EXPECT_THAT(Text(registry), HasSubstr("lockstep_worker_invalid_requests_total 1\n"));
}

TEST(WorkerMetricsTest, FurtherKvGroupsHaveTheirOwnSeries) {
  prometheus::Registry one_group;
  ForwardModelInfo info;
  info.kv_groups.front().num_blocks = 7;
  const WorkerMetrics of_one_group(one_group, info);
  EXPECT_THAT(Text(one_group), HasSubstr("lockstep_worker_kv_blocks 7\n"));
  EXPECT_THAT(Text(one_group), Not(HasSubstr("kv_group_blocks")));

  prometheus::Registry two_groups;
  info.kv_groups.push_back({.num_blocks = 5, .window_tokens = 3, .dtype = {}});
  const WorkerMetrics of_two_groups(two_groups, info);
  EXPECT_THAT(Text(two_groups), HasSubstr("lockstep_worker_kv_blocks 7\n"));
  EXPECT_THAT(Text(two_groups), HasSubstr("lockstep_worker_kv_group_blocks{group=\"1\"} 5\n"));
}

}  // namespace
}  // namespace lockstep::worker
