#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>

#include "router/workers/step_codec.h"
#include "tests/router/workers/step_plans.h"

namespace lockstep::router {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
