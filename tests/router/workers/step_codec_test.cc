#include "router/workers/step_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/step_message.h"
#include "router/core/messages/request.h"
#include "router/core/messages/scheduler_config.h"
#include "tests/router/workers/step_plans.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<Request> MakeRequest(std::vector<TokenId> prompt) {
  auto request = std::make_shared<Request>();
  request->prompt_tokens = std::move(prompt);
  return request;
}

TEST(EncodeStepTest, CarriesRowsAndGrowthInBatchOrder) {
  StepPlan plan = MixedPlan();
  plan.released = {4, 1};
  const worker::v1::StepRequest request = EncodeStep(plan, 99);
  EXPECT_EQ(request.epoch(), 99u);
  EXPECT_EQ(request.step_id(), 7u);
  EXPECT_FALSE(request.has_claim());
  EXPECT_FALSE(request.resync());
  EXPECT_FALSE(request.repeat_rows());
  EXPECT_THAT(request.released_slots(), ElementsAre(4, 1));
  EXPECT_THAT(request.run_slots(), ElementsAre(5, 2, 9));
  EXPECT_THAT(request.run_tokens(), ElementsAre(1, 4, 1));
  EXPECT_THAT(request.grown_slots(), ElementsAre(2, 9));
  EXPECT_THAT(request.grown_counts(), ElementsAre(2, 1));
  EXPECT_THAT(request.grown_blocks(), ElementsAre(31, 30, 12));
}

TEST(EncodeStepTest, OneGroupNeedsNoGroups) {
  const worker::v1::StepRequest request = EncodeStep(MixedPlan(), 99);
  EXPECT_THAT(request.grown_groups(), IsEmpty());
}

TEST(EncodeStepTest, CarriesGrowthOfEveryGroup) {
  StepPlan plan;
  plan.rows = {{.slot = 4, .num_tokens = 1, .new_blocks = {{.group = 0, .ids = {1}}}},
               {.slot = 2, .num_tokens = 1, .new_blocks = {}},
               {.slot = 0,
                .num_tokens = 1,
                .new_blocks = {{.group = 0, .ids = {7}}, {.group = 1, .first = 9, .ids = {2, 3}}}},
               {.slot = 5, .num_tokens = 1, .new_blocks = {{.group = 0, .ids = {8}}}},
               {.slot = 6, .num_tokens = 1, .new_blocks = {{.group = 2, .ids = {0}}}}};
  const worker::v1::StepRequest request = EncodeStep(plan, 1);
  EXPECT_THAT(request.grown_slots(), ElementsAre(4, 0, 0, 5, 6));
  EXPECT_THAT(request.grown_groups(), ElementsAre(0, 0, 1, 0, 2));
  EXPECT_THAT(request.grown_counts(), ElementsAre(1, 1, 2, 1, 1));
  EXPECT_THAT(request.grown_blocks(), ElementsAre(1, 7, 2, 3, 8, 0));
}

StepPlan StartingPlan(std::vector<GroupBlocks> blocks) {
  StepPlan plan;
  plan.started.push_back({.slot = 6,
                          .request = MakeRequest({10, 11, 12}),
                          .sample_index = 0,
                          .known_tokens = {10, 11, 12},
                          .num_computed_tokens = 1,
                          .blocks = std::move(blocks),
                          .first_prompt_logprob = 0});
  return plan;
}

TEST(EncodeStepTest, CarriesTheBlocksOfEveryGroup) {
  const StepPlan plan = StartingPlan({{.group = 0, .ids = {44, 45}},
                                      {.group = 1, .first = 1, .ids = {3}},
                                      {.group = 2, .first = 0, .ids = {9, 8}}});
  const worker::v1::StepRequest request = EncodeStep(plan, 1);
  const worker::v1::StartedSlot& started = request.started(0);
  EXPECT_THAT(started.blocks(), ElementsAre(44, 45));
  ASSERT_EQ(started.group_blocks_size(), 2);
  EXPECT_EQ(started.group_blocks(0).first(), 1u);
  EXPECT_THAT(started.group_blocks(0).blocks(), ElementsAre(3));
  EXPECT_EQ(started.group_blocks(1).first(), 0u);
  EXPECT_THAT(started.group_blocks(1).blocks(), ElementsAre(9, 8));
  EXPECT_EQ(EncodeStep(StartingPlan({{.ids = {1}}}), 1).started(0).group_blocks_size(), 0);
}

TEST(EncodeStepDeathTest, AStartThatLacksAGroup) {
  EXPECT_DEATH(EncodeStep(StartingPlan({{.group = 0, .ids = {1}}, {.group = 2, .ids = {2}}}), 1),
               "started slot 6: the blocks of group 2 come where 1 belongs");
}

TEST(EncodeStepTest, CarriesEverythingOfAStartedSlot) {
  auto shared = MakeRequest({10, 11, 12});
  SamplingParams& sampling = shared->sampling;
  sampling.temperature = 0.5f;
  sampling.top_p = 0.9f;
  sampling.top_k = 40;
  sampling.min_p = 0.05f;
  sampling.presence_penalty = 0.1f;
  sampling.frequency_penalty = 0.2f;
  sampling.repetition_penalty = 1.1f;
  sampling.seed = 0xfeedfacecafebeef;
  sampling.logit_bias = {{3, -1.5f}, {8, 2.0f}};
  sampling.allowed_token_ids = {3, 8};
  sampling.stop_token_ids = {0, 2};
  sampling.min_new_tokens = 2;
  sampling.max_new_tokens = 20;
  sampling.num_logprobs = 5;
  sampling.num_prompt_logprobs = 1;
  StepPlan plan;
  plan.step_id = 1;
  plan.resync = true;
  plan.started.push_back({.slot = 6,
                          .request = shared,
                          .sample_index = 3,
                          .known_tokens = {10, 11, 12, 13},
                          .num_computed_tokens = 1,
                          .blocks = {{.ids = {44, 45}}},
                          .first_prompt_logprob = 1});
  const worker::v1::StepRequest request = EncodeStep(plan, 1);
  EXPECT_TRUE(request.resync());
  ASSERT_EQ(request.started_size(), 1);
  const worker::v1::StartedSlot& started = request.started(0);
  EXPECT_EQ(started.slot(), 6u);
  EXPECT_THAT(started.known_tokens(), ElementsAre(10, 11, 12, 13));
  EXPECT_EQ(started.num_prompt_tokens(), 3u);
  EXPECT_EQ(started.num_computed_tokens(), 1u);
  EXPECT_THAT(started.blocks(), ElementsAre(44, 45));
  EXPECT_EQ(started.first_prompt_logprob(), 1u);
  const worker::v1::SlotSampling& wire = started.sampling();
  EXPECT_EQ(wire.temperature(), 0.5f);
  EXPECT_EQ(wire.top_p(), 0.9f);
  EXPECT_EQ(wire.top_k(), 40u);
  EXPECT_EQ(wire.min_p(), 0.05f);
  EXPECT_EQ(wire.presence_penalty(), 0.1f);
  EXPECT_EQ(wire.frequency_penalty(), 0.2f);
  EXPECT_EQ(wire.repetition_penalty(), 1.1f);
  EXPECT_EQ(wire.seed(), 0xfeedfacecafebeef);
  EXPECT_EQ(wire.sample_index(), 3u);
  EXPECT_THAT(wire.logit_bias_ids(), ElementsAre(3, 8));
  EXPECT_THAT(wire.logit_bias_values(), ElementsAre(-1.5f, 2.0f));
  EXPECT_THAT(wire.allowed_token_ids(), ElementsAre(3, 8));
  EXPECT_THAT(wire.stop_token_ids(), ElementsAre(0, 2));
  EXPECT_EQ(wire.min_total_tokens(), 5u);
  EXPECT_EQ(wire.max_total_tokens(), 23u);
  EXPECT_EQ(wire.num_logprobs(), 5);
  EXPECT_EQ(wire.num_prompt_logprobs(), 1);
}

// As many biased ids as the planner starts in a step (HasRoomToStart), and then a long sequence.
TEST(EncodeStepTest, TheLargestStepIsAsLargeAsWorkersTake) {
  constexpr uint32_t kLists = 18 * 1024;  // ids that a GPU worker takes of one sequence
  constexpr TokenId kLargestId = 393'215;
  const uint64_t max_started_ids = SchedulerConfig().max_started_ids_per_step;
  auto biased = MakeRequest({1});
  for (uint32_t i = kLists; i > 0; --i) {
    biased->sampling.logit_bias.emplace_back(kLargestId - i, 1.0f);
  }
  auto plain = MakeRequest({1});
  StepPlan plan;
  for (uint64_t num_ids = 0; num_ids < max_started_ids; num_ids += kLists + 1) {
    const auto slot = static_cast<SlotId>(plan.started.size());
    plan.started.push_back(
        {.slot = slot, .request = biased, .known_tokens = {1}, .blocks = {{.ids = {0}}}});
  }
  const size_t longest = SchedulerConfig().max_waiting_tokens;
  plan.started.push_back({.slot = 65'535,
                          .request = plain,
                          .known_tokens = std::vector<TokenId>(longest, kLargestId),
                          .blocks = {{.ids = std::vector<BlockId>(longest / 16)}}});
  const size_t num_bytes = EncodeStep(plan, ~uint64_t{0}).ByteSizeLong();
  EXPECT_LT(num_bytes, size_t{kMaxStepMessageMib} << 20);
  EXPECT_GT(num_bytes, size_t{kMaxStepMessageMib / 2} << 20);
}

TEST(EncodeStepTest, TotalTokensSaturate) {
  auto shared = MakeRequest({1, 2});
  shared->sampling.max_new_tokens = 0xffffffff;
  StepPlan plan;
  plan.started.push_back({.slot = 0, .request = shared, .known_tokens = {1, 2}, .blocks = {}});
  EXPECT_EQ(EncodeStep(plan, 1).started(0).sampling().max_total_tokens(), 0xffffffffu);
}

TEST(EncodeStepTest, RepeatedDecodeBatchIsAFewBytes) {
  StepPlan plan = DecodePlan(256);
  EXPECT_THAT(EncodeStep(plan, 5).run_slots(), testing::SizeIs(256));
  EXPECT_THAT(EncodeStep(plan, 5).run_tokens(), IsEmpty());
  plan.repeat_rows = true;
  EXPECT_LE(EncodeStep(plan, 5).ByteSizeLong(), 20u);
  // Blocks of 16 tokens: one row in sixteen grows.
  for (size_t row = 0; row < plan.rows.size(); row += 16) {
    plan.rows[row].new_blocks = {{.ids = {static_cast<BlockId>(row)}}};
  }
  const worker::v1::StepRequest request = EncodeStep(plan, 5);
  EXPECT_THAT(request.run_slots(), IsEmpty());
  EXPECT_EQ(request.grown_slots_size(), 16);
  EXPECT_LE(request.ByteSizeLong(), 20u + 16 * 7 + 6);
}

TEST(EncodeStepTest, OneIterationTakesNoByte) {
  StepPlan plan = DecodePlan(1);
  EXPECT_EQ(EncodeStep(plan, 1).decode_iterations(), 0u);
  plan.decode_iterations = 4;
  EXPECT_EQ(EncodeStep(plan, 1).decode_iterations(), 4u);
}

TEST(EncodeStepTest, DraftLimitsAreToldWhereSomeRowDrafts) {
  StepPlan plan = DecodePlan(3);
  const std::string without = EncodeStep(plan, 1).SerializeAsString();
  EXPECT_THAT(EncodeStep(plan, 1).draft_limits(), IsEmpty());
  plan.rows[1].max_drafts = 4;
  worker::v1::StepRequest request = EncodeStep(plan, 1);
  EXPECT_THAT(request.draft_limits(), ElementsAre(0, 4, 0));
  request.clear_draft_limits();
  EXPECT_EQ(request.SerializeAsString(), without) << "nothing else is told";
  plan.repeat_rows = true;
  EXPECT_THAT(EncodeStep(plan, 1).draft_limits(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::router
