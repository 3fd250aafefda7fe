#include "worker/service/worker_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace lockstep::worker
