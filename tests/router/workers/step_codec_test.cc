#include "router/workers/step_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/step_message.h"
#include "router/core/messages/scheduler_config.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<Request> MakeRequest(std::vector<TokenId> prompt) {
  auto request = std::make_shared<Request>();
  request->prompt_tokens = std::move(prompt);
  return request;
}

// Three slots: 5 decodes, 2 prefills four tokens, 9 decodes and grows.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.step_id = 7;
  plan.rows = {{.slot = 5, .num_tokens = 1, .new_blocks = {}},
               {.slot = 2, .num_tokens = 4, .new_blocks = {{.ids = {31, 30}}}},
               {.slot = 9, .num_tokens = 1, .new_blocks = {{.ids = {12}}}}};
  return plan;
}

StepPlan DecodePlan(uint32_t num_rows) {
  StepPlan plan;
  plan.step_id = 1234;
  plan.num_decode_tokens = num_rows;
  for (uint32_t row = 0; row < num_rows; ++row) {
    plan.rows.push_back({.slot = row, .num_tokens = 1, .new_blocks = {}});
  }
  return plan;
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

worker::v1::StepResult ResultFor(const StepPlan& plan) {
  worker::v1::StepResult result;
  result.set_step_id(plan.step_id);
  return result;
}

worker::v1::TokenLogprobs* AddLogprob(worker::v1::StepResult& result, SlotId slot, TokenId token,
                                      float logprob) {
  worker::v1::TokenLogprobs* const entry = result.add_logprobs();
  entry->set_slot(slot);
  entry->set_token_id(token);
  entry->set_logprob(logprob);
  entry->set_rank(1);
  return entry;
}

TEST(DecodeResultTest, OneTokenEach) {
  const StepPlan plan = DecodePlan(3);
  worker::v1::StepResult result = ResultFor(plan);
  for (const SlotId slot : {0u, 2u}) {
    result.add_sampled_slots(slot);
    result.add_token_ids(100 + slot);
  }
  result.mutable_timings()->set_queue_ns(1);
  result.mutable_timings()->set_compute_ns(2);
  result.mutable_timings()->set_idle_ns(3);
  result.mutable_timings()->set_total_ns(~uint64_t{0});
  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->step_id, plan.step_id);
  EXPECT_TRUE(outcome->refusal.ok());
  ASSERT_EQ(outcome->rows.size(), 2u);
  EXPECT_EQ(outcome->rows[0].slot, 0u);
  EXPECT_THAT(outcome->rows[0].tokens, ElementsAre(100));
  EXPECT_EQ(outcome->rows[1].slot, 2u);
  EXPECT_THAT(outcome->rows[1].tokens, ElementsAre(102));
  EXPECT_EQ(outcome->timings.queue, absl::Nanoseconds(1));
  EXPECT_EQ(outcome->timings.compute, absl::Nanoseconds(2));
  EXPECT_EQ(outcome->timings.idle, absl::Nanoseconds(3));
  EXPECT_GT(outcome->timings.total, absl::Hours(24));  // clamped, never negative
}

TEST(DecodeResultTest, EverythingThatARowCanSay) {
  StepPlan plan = MixedPlan();
  plan.decode_iterations = 2;
  worker::v1::StepResult result = ResultFor(plan);
  result.add_sampled_slots(9);
  result.add_sampled_counts(2);
  result.add_sampled_slots(5);
  result.add_sampled_counts(1);
  for (const TokenId token : {21u, 22u, 51u}) result.add_token_ids(token);
  AddLogprob(result, 5, 51, -0.5f)->add_top_ids(51);
  result.mutable_logprobs(0)->add_top_logprobs(-0.25f);
  result.add_stopped_slots(9);
  result.add_stop_causes(worker::v1::STOP_CAUSE_LENGTH);
  worker::v1::PromptLogprobs* const prompt = result.add_prompt_logprobs();
  prompt->set_slot(2);
  prompt->set_first_position(3);
  for (const TokenId token : {61u, 62u}) prompt->add_entries()->set_token_id(token);
  worker::v1::SlotError* const error = result.add_errors();
  error->set_slot(2);
  error->set_code(8);
  error->set_message("no room");

  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->rows.size(), 3u);
  const RowOutcome& nine = outcome->rows[0];
  EXPECT_EQ(nine.slot, 9u);
  EXPECT_THAT(nine.tokens, ElementsAre(21, 22));
  EXPECT_THAT(nine.logprobs, IsEmpty());
  EXPECT_EQ(nine.stopped, StopCause::kLength);
  const RowOutcome& five = outcome->rows[1];
  EXPECT_EQ(five.slot, 5u);
  EXPECT_THAT(five.tokens, ElementsAre(51));
  ASSERT_EQ(five.logprobs.size(), 1u);
  EXPECT_EQ(five.logprobs[0].token, 51u);
  EXPECT_EQ(five.logprobs[0].logprob, -0.5f);
  EXPECT_EQ(five.logprobs[0].rank, 1u);
  EXPECT_THAT(five.logprobs[0].top, ElementsAre(std::pair<TokenId, float>(51, -0.25f)));
  const RowOutcome& two = outcome->rows[2];
  EXPECT_EQ(two.slot, 2u);
  EXPECT_EQ(two.error, absl::InternalError(
                           "the worker failed this sequence with RESOURCE_EXHAUSTED: \"no room\""));
  EXPECT_EQ(two.first_prompt_logprob, 3u);
  ASSERT_EQ(two.prompt_logprobs.size(), 2u);
  EXPECT_EQ(two.prompt_logprobs[1].token, 62u);
}

TEST(DecodeResultTest, ARowKeepsAtMostWhatItDraftedAndOneMore) {
  StepPlan plan = DecodePlan(2);
  plan.rows[0].max_drafts = 3;
  worker::v1::StepResult result = ResultFor(plan);
  for (const SlotId slot : {0u, 1u}) result.add_sampled_slots(slot);
  for (const uint32_t count : {3u, 1u}) result.add_sampled_counts(count);
  for (const TokenId token : {7u, 8u, 9u, 5u}) result.add_token_ids(token);
  for (const uint32_t count : {2u, 0u}) result.add_drafted_counts(count);
  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->rows[0].tokens, ElementsAre(7, 8, 9));
  EXPECT_EQ(outcome->rows[0].num_drafted, 2u);
  EXPECT_EQ(outcome->rows[1].num_drafted, 0u);

  const auto expect_refused = [&plan](const worker::v1::StepResult& spoilt, const char* message) {
    EXPECT_THAT(std::string(DecodeResult(spoilt, plan).status().message()), HasSubstr(message));
  };
  worker::v1::StepResult spoilt = result;
  spoilt.set_drafted_counts(0, 1);
  expect_refused(spoilt, "sampled_counts[0]: expected 1 to 2 tokens for slot 0, got 3");
  spoilt.set_drafted_counts(0, 4);
  expect_refused(spoilt, "drafted_counts[0]: expected at most 3 tokens for slot 0, got 4");
  spoilt = result;
  spoilt.set_drafted_counts(1, 1);
  expect_refused(spoilt, "drafted_counts[1]: expected at most 0 tokens for slot 1, got 1");
  spoilt = result;
  spoilt.add_drafted_counts(0);
  expect_refused(spoilt, "drafted_counts: expected 2 entries or none, got 3");
  spoilt.clear_drafted_counts();
  expect_refused(spoilt, "sampled_counts[0]: expected 1 to 1 tokens for slot 0, got 3");
}

TEST(DecodeResultTest, InertRowsAreMarked) {
  const StepPlan plan = DecodePlan(2);
  worker::v1::StepResult result = ResultFor(plan);
  result.add_inert_slots(1);
  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(outcome->rows.size(), 1u);
  EXPECT_EQ(outcome->rows[0].slot, 1u);
  EXPECT_TRUE(outcome->rows[0].was_inert);
}

TEST(DecodeResultTest, RefusalKeepsItsReason) {
  const StepPlan plan = DecodePlan(2);
  worker::v1::StepResult result = ResultFor(plan);
  result.mutable_refusal()->set_code(9);
  result.mutable_refusal()->set_message("gap in step_id");
  absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->refusal, absl::FailedPreconditionError("the worker says \"gap in step_id\""));
  EXPECT_THAT(outcome->rows, IsEmpty());
  result.mutable_refusal()->set_code(1000);
  outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->refusal.code(), absl::StatusCode::kUnknown);
}

TEST(DecodeResultTest, AFailedRowIsInternalWithAShortText) {
  const StepPlan plan = DecodePlan(2);
  worker::v1::StepResult result = ResultFor(plan);
  worker::v1::SlotError* const error = result.add_errors();
  error->set_slot(0);
  error->set_code(16);  // UNAUTHENTICATED: not the client's fault
  error->set_message("a \"b\"\n\xff" + std::string(20'000, 'x'));
  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->rows[0].error,
            absl::InternalError("the worker failed this sequence with UNAUTHENTICATED: "
                                "\"a \\\"b\\\"\\x0a\\xff" +
                                std::string(93, 'x') + "\"... (20007 bytes)"));
}

TEST(DecodeResultTest, OfALongRefusalLittleIsKept) {
  const StepPlan plan = DecodePlan(2);
  worker::v1::StepResult result = ResultFor(plan);
  result.mutable_refusal()->set_code(9);
  result.mutable_refusal()->set_message(std::string(1 << 20, '\n'));
  const absl::StatusOr<StepOutcome> outcome = DecodeResult(result, plan);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_LT(outcome->refusal.message().size(), 500u);
}

struct BadResult {
  std::string name;
  std::function<void(worker::v1::StepResult&)> spoil;
  std::string message;
};

void PrintTo(const BadResult& bad, std::ostream* out) { *out << bad.name; }

class BadResultTest : public ::testing::TestWithParam<BadResult> {};

// Starts from a good result for MixedPlan: slot 5 kept 51, slot 9 kept 91.
TEST_P(BadResultTest, IsRefusedByField) {
  const StepPlan plan = MixedPlan();
  worker::v1::StepResult result = ResultFor(plan);
  for (const SlotId slot : {5u, 9u}) {
    result.add_sampled_slots(slot);
    result.add_sampled_counts(1);
    result.add_token_ids(10 * slot + 1);
  }
  ASSERT_TRUE(DecodeResult(result, plan).ok());
  GetParam().spoil(result);
  const absl::Status status = DecodeResult(result, plan).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message().data(), status.message().size()),
              HasSubstr(GetParam().message));
}

using Result = worker::v1::StepResult;

void AddStop(Result& result, SlotId slot, worker::v1::StopCause cause) {
  result.add_stopped_slots(slot);
  result.add_stop_causes(cause);
}

void AddPromptLogprobs(Result& result, SlotId slot, uint32_t first, int count) {
  worker::v1::PromptLogprobs* const prompt = result.add_prompt_logprobs();
  prompt->set_slot(slot);
  prompt->set_first_position(first);
  for (int i = 0; i < count; ++i) prompt->add_entries();
}

void AddError(Result& result, SlotId slot, uint32_t code) {
  worker::v1::SlotError* const error = result.add_errors();
  error->set_slot(slot);
  error->set_code(code);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadResultTest,
    testing::Values(
        BadResult{"StepId", [](Result& r) { r.set_step_id(8); }, "step_id: expected 7, got 8"},
        BadResult{"UnknownSlot", [](Result& r) { r.set_sampled_slots(0, 4); },
                  "sampled_slots[0]: slot 4 did not run"},
        BadResult{"HugeSlot", [](Result& r) { r.set_sampled_slots(0, 0xffffffff); },
                  "sampled_slots[0]: slot 4294967295 did not run"},
        BadResult{"RepeatedSlot", [](Result& r) { r.set_sampled_slots(1, 5); },
                  "sampled_slots[1]: slot 5 is given twice"},
        BadResult{"CountsLength", [](Result& r) { r.add_sampled_counts(1); },
                  "sampled_counts: expected 2"},
        BadResult{"ZeroCount", [](Result& r) { r.set_sampled_counts(0, 0); }, "sampled_counts[0]"},
        BadResult{"CountAboveBound",
                  [](Result& r) {
                    r.set_sampled_counts(0, 2);
                    r.add_token_ids(1);
                  },
                  "sampled_counts[0]: expected 1 to 1 tokens for slot 5, got 2"},
        BadResult{"TooFewTokens", [](Result& r) { r.mutable_token_ids()->RemoveLast(); },
                  "token_ids"},
        BadResult{"TooManyTokens", [](Result& r) { r.add_token_ids(3); },
                  "token_ids: expected 2 entries, got 3"},
        BadResult{"LogprobOfStranger", [](Result& r) { AddLogprob(r, 2, 1, 0); },
                  "logprobs[0]: slot 2"},
        BadResult{"LogprobOfOtherToken", [](Result& r) { AddLogprob(r, 5, 52, 0); },
                  "logprobs[0].token_id: expected 51, got 52"},
        BadResult{"LogprobTwice",
                  [](Result& r) {
                    AddLogprob(r, 5, 51, 0);
                    AddLogprob(r, 5, 51, 0);
                  },
                  "logprobs[1]: slot 5 kept no more tokens"},
        BadResult{"TopLengths", [](Result& r) { AddLogprob(r, 5, 51, 0)->add_top_ids(1); },
                  "1 top_ids but 0 top_logprobs"},
        BadResult{"StopLengths", [](Result& r) { r.add_stopped_slots(5); },
                  "stop_causes: expected 1"},
        BadResult{"StopOfStranger", [](Result& r) { AddStop(r, 77, worker::v1::STOP_CAUSE_TOKEN); },
                  "stopped_slots[0]: slot 77 did not run"},
        BadResult{"StopWithoutToken",
                  [](Result& r) { AddStop(r, 2, worker::v1::STOP_CAUSE_TOKEN); },
                  "slot 2 stopped without a token"},
        BadResult{"StopTwice",
                  [](Result& r) {
                    AddStop(r, 5, worker::v1::STOP_CAUSE_TOKEN);
                    AddStop(r, 5, worker::v1::STOP_CAUSE_LENGTH);
                  },
                  "stopped_slots[1]: slot 5 is given twice"},
        BadResult{"StopCause", [](Result& r) { AddStop(r, 5, worker::v1::STOP_CAUSE_UNSPECIFIED); },
                  "stop_causes[0]"},
        BadResult{"InertWithTokens", [](Result& r) { r.add_inert_slots(5); }, "inert_slots[0]"},
        BadResult{"InertStranger", [](Result& r) { r.add_inert_slots(3); }, "inert_slots[0]"},
        BadResult{"InertTwice",
                  [](Result& r) {
                    r.add_inert_slots(2);
                    r.add_inert_slots(2);
                  },
                  "inert_slots[1]: slot 2 is given twice"},
        BadResult{"ErrorOk", [](Result& r) { AddError(r, 2, 0); }, "errors.code"},
        BadResult{"ErrorStranger", [](Result& r) { AddError(r, 3, 13); }, "errors[0]"},
        BadResult{"ErrorTwice",
                  [](Result& r) {
                    AddError(r, 2, 13);
                    AddError(r, 2, 13);
                  },
                  "errors[1]"},
        BadResult{"PromptStranger", [](Result& r) { AddPromptLogprobs(r, 3, 1, 1); },
                  "prompt_logprobs[0]"},
        BadResult{"PromptPositionZero", [](Result& r) { AddPromptLogprobs(r, 2, 0, 1); },
                  "prompt_logprobs[0]"},
        BadResult{"PromptEmpty", [](Result& r) { AddPromptLogprobs(r, 2, 1, 0); },
                  "prompt_logprobs[0]"},
        BadResult{"PromptTooMany", [](Result& r) { AddPromptLogprobs(r, 2, 1, 5); },
                  "expected 1 to 4 entries"},
        BadResult{"PromptTwice",
                  [](Result& r) {
                    AddPromptLogprobs(r, 2, 1, 1);
                    AddPromptLogprobs(r, 2, 2, 1);
                  },
                  "prompt_logprobs[1]"},
        BadResult{"RefusalWithRows", [](Result& r) { r.mutable_refusal()->set_code(9); },
                  "a refused step cannot have rows"},
        BadResult{"RefusalOk",
                  [](Result& r) {
                    r.clear_sampled_slots();
                    r.mutable_refusal();
                  },
                  "refusal.code"}),
    [](const testing::TestParamInfo<BadResult>& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::router
