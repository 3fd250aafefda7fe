// Rows with constraints, on an engine without a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/steps/fake_constraint_engine.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeConstraintEngine;
using ::lockstep::testing::GreedyReference;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::RichSampling;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr TokenId kEnd = 63;

// A sequence whose output must be `text`, of bytes below 63, and then kEnd.
v1::StartedSlot Constrained(SlotId slot, const std::string& text, uint32_t num_prompt = 5) {
  v1::StartedSlot started =
      MakeStarted(slot, MakeTokens(num_prompt, kVocabSize, slot + 1), BlockRange(slot * 8, 8), 30);
  started.mutable_sampling()->add_stop_token_ids(kEnd);
  started.mutable_constraint()->set_kind(v1::SlotConstraint::REGEX);
  started.mutable_constraint()->set_text(text);
  return started;
}

std::vector<TokenId> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

class ConstraintsTest : public ::testing::Test {
 protected:
  std::vector<TokenId> Generate(const v1::StartedSlot& started, uint32_t num_tokens) {
    std::vector<TokenId> tokens = Tokens(worker_.Prefill(started));
    while (tokens.size() < num_tokens) {
      const v1::StepResult result = worker_.Decode(started.slot());
      if (result.token_ids_size() == 0) break;
      tokens.push_back(result.token_ids(0));
    }
    return tokens;
  }

  FakeConstraintEngine engine_;
  TestWorker worker_{{}, {.max_slots = 16}, nullptr, &engine_};
};

TEST_F(ConstraintsTest, AMaskedRowSamplesWhatFits) {
  std::vector<TokenId> expected = Bytes("018!");
  expected.push_back(kEnd);
  EXPECT_EQ(Generate(Constrained(2, "018!"), 9), expected);
  // At any temperature, with every filter and penalty.
  v1::StartedSlot rich = Constrained(3, "018!");
  *rich.mutable_sampling() = RichSampling(30);
  rich.mutable_sampling()->clear_allowed_token_ids();
  rich.mutable_sampling()->clear_stop_token_ids();
  rich.mutable_sampling()->clear_logit_bias_ids();
  rich.mutable_sampling()->clear_logit_bias_values();
  rich.mutable_sampling()->add_stop_token_ids(kEnd);
  EXPECT_EQ(Generate(rich, 9), expected);
}

TEST_F(ConstraintsTest, AWholeOutputEndsWithItsStopId) {
  ASSERT_EQ(Generate(Constrained(2, "0"), 1), Bytes("0"));
  const v1::StepResult last = worker_.Decode(2);
  EXPECT_THAT(last.token_ids(), ElementsAre(kEnd));
  EXPECT_THAT(last.stopped_slots(), ElementsAre(2));
  EXPECT_THAT(last.stop_causes(), ElementsAre(v1::STOP_CAUSE_TOKEN));
  EXPECT_THAT(worker_.Decode(2).inert_slots(), ElementsAre(2));
}

TEST_F(ConstraintsTest, TooManyTokensEndItInTheMiddle) {
  v1::StartedSlot started = Constrained(2, "0123456789");
  started.mutable_sampling()->set_max_total_tokens(7);
  EXPECT_EQ(Generate(started, 1), Bytes("0"));
  const v1::StepResult last = worker_.Decode(2);
  EXPECT_EQ(Tokens(last), Bytes("1"));
  EXPECT_THAT(last.stop_causes(), ElementsAre(v1::STOP_CAUSE_LENGTH));
}

TEST_F(ConstraintsTest, AWholeOutputEndsBeforeItsLeastLength) {
  v1::StartedSlot started = Constrained(2, "0");
  started.mutable_sampling()->set_min_total_tokens(20);
  EXPECT_EQ(Generate(started, 2), (std::vector<TokenId>{'0', kEnd}));
}

TEST_F(ConstraintsTest, OtherRowsKeepTheirBits) {
  // A constraint that allows everything changes nothing.
  v1::StartedSlot free = Constrained(1, "");
  free.mutable_sampling()->clear_stop_token_ids();
  const std::vector<TokenId> prompt(free.known_tokens().begin(), free.known_tokens().end());
  EXPECT_EQ(Generate(free, 6), GreedyReference(worker_.model(), prompt, 6));
  // Nor does a constrained row beside it.
  const std::vector<TokenId> other = MakeTokens(5, kVocabSize, 40);
  v1::StepRequest step = worker_.NextStep();
  *step.add_started() = MakeStarted(4, other, BlockRange(32, 8), 30);
  *step.add_started() = Constrained(2, "01");
  AddRow(step, 2, 5);
  AddRow(step, 4, 5);
  const v1::StepResult result = worker_.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(2, 4));
  EXPECT_EQ(result.token_ids(0), uint32_t{'0'});
  EXPECT_EQ(result.token_ids(1), GreedyReference(worker_.model(), other, 1)[0]);
}

TEST_F(ConstraintsTest, LogprobsAreThoseOfTheRawLogits) {
  v1::StartedSlot plain = Constrained(1, "");
  plain.mutable_sampling()->clear_stop_token_ids();
  plain.mutable_sampling()->set_num_logprobs(5);
  const v1::StepResult free = worker_.Prefill(plain);
  v1::StartedSlot masked = plain;
  masked.set_slot(5);
  masked.mutable_blocks()->Clear();
  for (const BlockId block : BlockRange(40, 8)) masked.add_blocks(block);
  masked.mutable_constraint()->set_text("7");
  const v1::StepResult result = worker_.Prefill(masked);
  EXPECT_EQ(result.token_ids(0), uint32_t{'7'});
  ASSERT_EQ(result.logprobs_size(), 1);
  EXPECT_THAT(std::vector<float>(result.logprobs(0).top_logprobs().begin(),
                                 result.logprobs(0).top_logprobs().end()),
              ::testing::ElementsAreArray(free.logprobs(0).top_logprobs()));
}

TEST_F(ConstraintsTest, AnotherSequenceInTheSlotStartsAnew) {
  ASSERT_EQ(Generate(Constrained(2, "01"), 1), Bytes("0"));
  EXPECT_EQ(Generate(Constrained(2, "98"), 2), Bytes("98"));
  // Without a constraint, and then with one again.
  v1::StepRequest step = worker_.NextStep();
  step.add_released_slots(2);
  worker_.RunAccepted(step);
  EXPECT_EQ(engine_.num_slots(), 0u);
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 3);
  EXPECT_EQ(Generate(MakeStarted(2, prompt, BlockRange(16, 8), 30), 4),
            GreedyReference(worker_.model(), prompt, 4));
  EXPECT_EQ(Generate(Constrained(2, "5"), 1), Bytes("5"));
}

TEST_F(ConstraintsTest, AResumedSequenceGoesOn) {
  v1::StartedSlot resumed = Constrained(6, "0123");
  for (const char byte : std::string("01")) resumed.add_known_tokens(static_cast<uint8_t>(byte));
  EXPECT_EQ(Generate(resumed, 3), (std::vector<TokenId>{'2', '3', kEnd}));
}

TEST_F(ConstraintsTest, SeveralIterationsAreMaskedEach) {
  ASSERT_EQ(Generate(Constrained(2, "0123"), 1), Bytes("0"));
  v1::StepRequest step = worker_.NextStep();
  step.add_run_slots(2);
  step.set_decode_iterations(3);
  EXPECT_EQ(Tokens(worker_.RunAccepted(step)), Bytes("123"));
  EXPECT_EQ(worker_.executor().last_step().num_masks, 3u);
}

TEST_F(ConstraintsTest, AnEngineThatEndsIsStartedAgainAndNothingChanges) {
  ASSERT_EQ(Generate(Constrained(2, "012345"), 1), Bytes("0"));
  ASSERT_EQ(Generate(Constrained(3, "987654"), 2), Bytes("98"));
  int num_faults = 0;
  engine_.fault = [&](const std::string& job, SlotId slot) {
    if (job != "mask" || slot != 2 || num_faults++ > 0) return absl::OkStatus();
    return absl::UnavailableError("killed");
  };
  EXPECT_EQ(Tokens(worker_.Decode(2)), Bytes("1"));
  EXPECT_EQ(worker_.executor().last_step().num_engine_restarts, 1u);
  EXPECT_EQ(Tokens(worker_.Decode(3)), Bytes("7"));
  EXPECT_EQ(Tokens(worker_.Decode(2)), Bytes("2"));
  EXPECT_THAT(engine_.calls, Contains("restart").Times(1));
}

TEST_F(ConstraintsTest, ASequenceThatEndsTheEngineTwiceFailsAlone) {
  ASSERT_EQ(Generate(Constrained(2, "012345"), 1), Bytes("0"));
  ASSERT_EQ(Generate(Constrained(3, "987654"), 1), Bytes("9"));
  engine_.fault = [](const std::string& job, SlotId slot) {
    return job == "mask" && slot == 2 ? absl::AbortedError("it takes more than 1s")
                                      : absl::OkStatus();
  };
  v1::StepRequest step = worker_.NextStep();
  step.add_run_slots(2);
  step.add_run_slots(3);
  const v1::StepResult result = worker_.RunAccepted(step);
  ASSERT_EQ(result.errors_size(), 1);
  EXPECT_EQ(result.errors(0).slot(), 2u);
  EXPECT_THAT(result.errors(0).message(),
              HasSubstr("constraint: the engine ended 2 times over it: it takes more than 1s"));
  EXPECT_THAT(result.sampled_slots(), ElementsAre(3));
  EXPECT_EQ(Tokens(result), Bytes("8"));
  EXPECT_EQ(Tokens(worker_.Decode(3)), Bytes("7"));
}

TEST_F(ConstraintsTest, AnEngineThatCannotStartFailsItsRowsOnly) {
  ASSERT_EQ(Generate(Constrained(2, "012345"), 1), Bytes("0"));
  engine_.fault = [](const std::string&, SlotId) { return absl::UnavailableError("gone"); };
  engine_.restart_status = absl::UnavailableError("no python");
  const v1::StepResult result = worker_.Decode(2);
  ASSERT_EQ(result.errors_size(), 1);
  EXPECT_THAT(result.errors(0).message(), HasSubstr("cannot be started again: no python"));
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 3);
  EXPECT_EQ(Generate(MakeStarted(4, prompt, BlockRange(32, 8), 30), 4),
            GreedyReference(worker_.model(), prompt, 4));
}

TEST_F(ConstraintsTest, WhatDoesNotFitIsAnErrorOfItsRow) {
  v1::StartedSlot wrong = Constrained(2, "0123");
  wrong.add_known_tokens('9');
  const v1::StepResult result = worker_.Prefill(wrong);
  ASSERT_EQ(result.errors_size(), 1);
  EXPECT_THAT(result.errors(0).message(), HasSubstr("constraint: token 0 does not fit"));
  EXPECT_THAT(engine_.calls, Not(Contains("restart")));
}

TEST_F(ConstraintsTest, ALeaseEndsEveryConstraint) {
  ASSERT_EQ(Generate(Constrained(2, "0123"), 1), Bytes("0"));
  worker_.executor().EndLease();
  EXPECT_EQ(engine_.num_slots(), 0u);
}

TEST(ConstraintsWithoutEngineTest, AreRefused) {
  TestWorker worker;
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = Constrained(2, "01");
  AddRow(step, 2, 5);
  EXPECT_THAT(worker.Run(step).refusal().message(),
              HasSubstr("started[0]: constraint: this worker has no constraint engine"));
  EXPECT_EQ(worker.executor().bounds().constraint_engine, "");
}

TEST(ConstraintsWithEngineTest, UnknownKindsAreRefused) {
  FakeConstraintEngine engine;
  TestWorker worker({}, {.max_slots = 16}, nullptr, &engine);
  EXPECT_EQ(worker.executor().bounds().constraint_engine, "fake@1");
  for (const int kind : {0, 99}) {
    v1::StepRequest step = worker.NextStep();
    step.set_resync(true);
    *step.add_started() = Constrained(2, "01");
    step.mutable_started(0)->mutable_constraint()->set_kind(
        static_cast<v1::SlotConstraint::Kind>(kind));
    AddRow(step, 2, 5);
    EXPECT_THAT(worker.Run(step).refusal().message(), HasSubstr("constraint.kind"));
  }
}

}  // namespace
}  // namespace lockstep::worker
