#include "router/engine/vllm_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "router/engine/router_metrics.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class VllmMetricsTest : public ::testing::Test {
 protected:
  std::string Scrape() const {
    return prometheus::TextSerializer().Serialize(VllmMetrics(registry_).Collect());
  }

  prometheus::Registry registry_;
  RouterMetrics metrics_{registry_, "m"};
};

TEST_F(VllmMetricsTest, KeepsTheRoutersOwnSeries) {
  metrics_.queue_requests->Set(3);
  EXPECT_THAT(Scrape(), HasSubstr("lockstep_router_queue_requests{model=\"m\"} 3\n"));
}

TEST_F(VllmMetricsTest, ReadsZeroAtTheStart) {
  const std::string text = Scrape();
  for (const char* const series :
       {"vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:admission_rejections_total{model_name=\"m\",engine=\"0\"} 0\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"m\",engine=\"0\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST_F(VllmMetricsTest, FollowsGaugesCountersAndHistograms) {
  metrics_.queue_requests->Set(3);
  metrics_.running_requests->Set(5);
  metrics_.generation_tokens_total->Increment(7);
  metrics_.time_to_first_token_seconds->Observe(0.03);
  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_waiting{model_name=\"m\",engine=\"0\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("vllm:generation_tokens_total{model_name=\"m\",engine=\"0\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:time_to_first_token_seconds histogram\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.02\"} "
          "0\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",engine=\"0\",le=\"0.04\"} "
          "1\n"));
}

TEST_F(VllmMetricsTest, EndsHaveVllmsLabel) {
  RouterMetrics::At(metrics_.requests_finished_total, FinishedAs::kLength).Increment(2);
  const std::string text = Scrape();
  EXPECT_THAT(text, HasSubstr("vllm:request_success_total{model_name=\"m\",finished_reason="
                              "\"length\",engine=\"0\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("vllm:request_success_total{reason")));
}

TEST_F(VllmMetricsTest, LengthsOfRequestsHaveVllmsNames) {
  metrics_.request_prompt_tokens->Observe(300);
  metrics_.sequence_generation_tokens->Observe(7);
  metrics_.request_longest_generation_tokens->Observe(8);
  metrics_.request_max_tokens->Observe(16);
  metrics_.request_samples->Observe(2);
  const std::string text = Scrape();
  for (const char* const sum :
       {"request_prompt_tokens_sum{model_name=\"m\",engine=\"0\"} 300\n",
        "request_generation_tokens_sum{model_name=\"m\",engine=\"0\"} 7\n",
        "request_max_num_generation_tokens_sum{model_name=\"m\",engine=\"0\"} 8\n",
        "request_params_max_tokens_sum{model_name=\"m\",engine=\"0\"} 16\n",
        "request_params_n_sum{model_name=\"m\",engine=\"0\"} 2\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("vllm:") + sum));
  }
}

TEST_F(VllmMetricsTest, TheCacheIsDescribedByLabels) {
  metrics_.kv_block_tokens->Set(16);
  metrics_.kv_blocks[0]->Set(100);
  metrics_.kv_blocks[2]->Set(28);
  EXPECT_THAT(Scrape(), HasSubstr("vllm:cache_config_info{model_name=\"m\",engine=\"0\",block_size="
                                  "\"16\",num_gpu_blocks=\"128\"} 1\n"));
}

TEST_F(VllmMetricsTest, CachedBlocksCountAsFree) {
  metrics_.kv_blocks[0]->Set(10);  // free
  metrics_.kv_blocks[1]->Set(40);  // used
  metrics_.kv_blocks[2]->Set(40);  // cached
  metrics_.kv_blocks[3]->Set(10);  // fenced
  EXPECT_THAT(Scrape(), HasSubstr("vllm:kv_cache_usage_perc{model_name=\"m\",engine=\"0\"} 0.5\n"));
}

TEST_F(VllmMetricsTest, WhatTheSchedulerRefusesIsAddedUp) {
  metrics_.Publish({.refused_for_deadline = 3, .refused_for_first_token = 9},
                   {.refused_for_deadline = 1, .refused_for_first_token = 4});
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kDeadline).Value(), 2);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kFirstToken).Value(), 5);
}

TEST_F(VllmMetricsTest, DraftsAreCounted) {
  metrics_.Publish({.drafted_tokens = 12, .accepted_drafts = 7}, {});
  metrics_.Publish({.drafted_tokens = 20,
                    .accepted_drafts = 9,
                    .rounds_by_drafts = {30, 4, 8},
                    .accepted_by_place = {6, 3}},
                   {.drafted_tokens = 12, .accepted_drafts = 7});
  const std::string text = Scrape();
  for (const char* const series :
       {"lockstep_router_spec_decode_draft_tokens_total{model=\"m\"} 20\n",
        "lockstep_router_spec_decode_accepted_tokens_total{model=\"m\"} 9\n",
        "lockstep_router_spec_decode_rounds_total{model=\"m\",drafts=\"0\"} 30\n",
        "lockstep_router_spec_decode_rounds_total{model=\"m\",drafts=\"2\"} 8\n",
        "accepted_tokens_per_position_total{model=\"m\",position=\"1\"} 3\n",
        "vllm:spec_decode_num_drafts_total{model_name=\"m\",engine=\"0\"} 12\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=\"0\","
        "engine=\"0\"} 6\n",
        "vllm:spec_decode_num_draft_tokens_total{model_name=\"m\",engine=\"0\"} 20\n",
        "vllm:spec_decode_num_accepted_tokens_total{model_name=\"m\",engine=\"0\"} 9\n"}) {
    EXPECT_THAT(text, HasSubstr(series));
  }
}

TEST_F(VllmMetricsTest, RejectionsAreThoseForWhatWaits) {
  const auto reject = [this](Rejection reason, int times) {
    RouterMetrics::At(metrics_.requests_rejected_total, reason).Increment(times);
  };
  reject(Rejection::kQueueRequests, 1);
  reject(Rejection::kQueueTokens, 20);
  reject(Rejection::kFirstToken, 300);
  for (const Rejection other : {Rejection::kOpenRequests, Rejection::kDraining,
                                Rejection::kNoWorker, Rejection::kDeadline}) {
    reject(other, 5000);
  }
  EXPECT_THAT(Scrape(),
              HasSubstr("vllm:admission_rejections_total{model_name=\"m\",engine=\"0\"} 321\n"));
}

}  // namespace
}  // namespace lockstep::router
