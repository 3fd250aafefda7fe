#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/step_messages.h"
#include "tests/worker/steps/test_worker.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::AddRow;
using ::lockstep::testing::ArgMax;
using ::lockstep::testing::BlockRange;
using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::GreedyReference;
using ::lockstep::testing::kVocabSize;
using ::lockstep::testing::MakeStarted;
using ::lockstep::testing::MakeTokens;
using ::lockstep::testing::RichSampling;
using ::lockstep::testing::TestWorker;
using ::lockstep::testing::Tokens;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CpuStepRunnerRowsTest, StopIdMakesTheSlotInertForStepsSentAhead) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 4);
  const std::vector<TokenId> greedy = GreedyReference(worker.model(), prompt, 3);
  v1::StartedSlot started = MakeStarted(2, prompt, BlockRange(0, 4), 16);
  started.mutable_sampling()->add_stop_token_ids(greedy[2]);
  worker.Prefill(started);
  worker.Decode(2);
  const v1::StepResult last = worker.Decode(2);
  EXPECT_EQ(Tokens(last), std::vector<TokenId>{greedy[2]});
  EXPECT_THAT(last.stopped_slots(), ElementsAre(2));
  EXPECT_THAT(last.stop_causes(), ElementsAre(v1::STOP_CAUSE_TOKEN));

  const uint64_t computed = worker.model().num_tokens();
  const v1::StepResult ahead = worker.Decode(2);
  EXPECT_THAT(ahead.inert_slots(), ElementsAre(2));
  EXPECT_THAT(ahead.sampled_slots(), IsEmpty());
  EXPECT_EQ(worker.model().num_tokens(), computed);
  EXPECT_EQ(worker.executor().last_step().num_live_slots, 0u);
}

TEST(CpuStepRunnerRowsTest, StopsAtMaxTotalTokens) {
  TestWorker worker;
  // Room for exactly the tokens whose KV is ever computed: all but the last.
  v1::StepResult result =
      worker.Prefill(MakeStarted(0, MakeTokens(6, kVocabSize, 5), BlockRange(0, 2), 9));
  EXPECT_THAT(result.stopped_slots(), IsEmpty());
  result = worker.Decode(0);
  EXPECT_THAT(result.stopped_slots(), IsEmpty());
  result = worker.Decode(0);
  EXPECT_THAT(result.stopped_slots(), ElementsAre(0));
  EXPECT_THAT(result.stop_causes(), ElementsAre(v1::STOP_CAUSE_LENGTH));
  EXPECT_THAT(worker.Decode(0).inert_slots(), ElementsAre(0));
}

TEST(CpuStepRunnerRowsTest, AStopIdThatIsAlsoTheLastTokenCountsAsAStopId) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 4);
  v1::StartedSlot started = MakeStarted(0, prompt, BlockRange(0, 2), 6);
  started.mutable_sampling()->add_stop_token_ids(GreedyReference(worker.model(), prompt, 1)[0]);
  EXPECT_THAT(worker.Prefill(started).stop_causes(), ElementsAre(v1::STOP_CAUSE_TOKEN));
}

TEST(CpuStepRunnerRowsTest, StopIdsAreMaskedWhileTooFewTokensAreKnown) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 6);
  v1::StartedSlot started = MakeStarted(0, prompt, BlockRange(0, 8), 30);
  // Every token but one is a stop id, so the mask decides what is sampled.
  for (TokenId token = 1; token < kVocabSize; ++token)
    started.mutable_sampling()->add_stop_token_ids(token);
  started.mutable_sampling()->set_min_total_tokens(8);
  v1::StepResult result = worker.Prefill(started);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Tokens(result), std::vector<TokenId>{0});
    EXPECT_THAT(result.stopped_slots(), IsEmpty());
    result = worker.Decode(0);
  }
  std::vector<TokenId> known = prompt;
  known.insert(known.end(), {0, 0, 0});
  EXPECT_EQ(Tokens(result), std::vector<TokenId>{ArgMax(worker.model().ExpectedLogits(known))});
}

// Log-probability of `token` in fp64, and its rank.
std::pair<double, uint32_t> ReferenceLogprob(const std::vector<float>& logits, TokenId token) {
  double sum = 0;
  uint32_t rank = 1;
  for (const float logit : logits) {
    sum += std::exp(double{logit});
    if (logit > logits[token]) ++rank;
  }
  return {logits[token] - std::log(sum), rank};
}

TEST(CpuStepRunnerRowsTest, LogprobsAreOfTheRawLogits) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 7);
  v1::StartedSlot started = MakeStarted(1, prompt, BlockRange(0, 4), 16);
  *started.mutable_sampling() = RichSampling(16);
  started.mutable_sampling()->set_num_logprobs(3);
  const v1::StepResult result = worker.Prefill(started);
  ASSERT_THAT(result.logprobs(), SizeIs(1));
  const v1::TokenLogprobs& entry = result.logprobs(0);
  const std::vector<float> logits = worker.model().ExpectedLogits(prompt);
  const auto [logprob, rank] = ReferenceLogprob(logits, result.token_ids(0));
  EXPECT_EQ(entry.slot(), 1u);
  EXPECT_EQ(entry.token_id(), result.token_ids(0));
  EXPECT_NEAR(entry.logprob(), logprob, 1e-5);
  EXPECT_EQ(entry.rank(), rank);
  ASSERT_THAT(entry.top_ids(), SizeIs(3));
  EXPECT_EQ(entry.top_ids(0), ArgMax(logits));
  for (int i = 0; i < 3; ++i) {
    const auto [expected, expected_rank] = ReferenceLogprob(logits, entry.top_ids(i));
    EXPECT_EQ(expected_rank, static_cast<uint32_t>(i + 1));
    EXPECT_NEAR(entry.top_logprobs(i), expected, 1e-5);
  }
}

TEST(CpuStepRunnerRowsTest, PromptLogprobsOverChunksCoverThePromptOnce) {
  FakeModelOptions options;
  options.max_logits_rows = 3;  // below any chunk
  TestWorker worker(options);
  const std::vector<TokenId> prompt = MakeTokens(23, kVocabSize, 8);
  v1::StartedSlot started = MakeStarted(0, prompt, BlockRange(0, 7), 26);
  started.set_num_computed_tokens(0);
  started.set_first_prompt_logprob(4);
  started.mutable_sampling()->set_num_prompt_logprobs(1);
  uint32_t next_position = 4;
  for (const uint32_t chunk : {2u, 7u, 5u, 9u}) {
    v1::StepRequest step = worker.NextStep();
    if (next_position == 4 && step.step_id() == 1) *step.add_started() = started;
    AddRow(step, 0, chunk);
    const v1::StepResult result = worker.RunAccepted(step);
    if (step.step_id() == 1) {
      EXPECT_THAT(result.prompt_logprobs(), IsEmpty());
      continue;
    }
    ASSERT_THAT(result.prompt_logprobs(), SizeIs(1));
    EXPECT_EQ(result.prompt_logprobs(0).slot(), 0u);
    EXPECT_EQ(result.prompt_logprobs(0).first_position(), next_position);
    for (const v1::TokenLogprobs& entry : result.prompt_logprobs(0).entries()) {
      const std::vector<float> logits =
          worker.model().ExpectedLogits(std::span(prompt).first(next_position));
      const auto [logprob, rank] = ReferenceLogprob(logits, prompt[next_position]);
      EXPECT_EQ(entry.token_id(), prompt[next_position]);
      EXPECT_NEAR(entry.logprob(), logprob, 1e-5);
      EXPECT_EQ(entry.rank(), rank);
      EXPECT_THAT(entry.top_ids(), ElementsAre(ArgMax(logits)));
      ++next_position;
    }
    EXPECT_EQ(result.token_ids_size(), next_position == prompt.size() ? 1 : 0);
  }
  EXPECT_EQ(next_position, prompt.size());
}

TEST(CpuStepRunnerRowsTest, ARowWithoutCandidatesFailsAlone) {
  TestWorker worker;
  const std::vector<TokenId> prompt = MakeTokens(5, kVocabSize, 13);
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = MakeStarted(0, prompt, {0, 1}, 16);
  v1::StartedSlot failing = MakeStarted(1, prompt, {2, 3}, 16);
  failing.mutable_sampling()->add_allowed_token_ids(3);
  failing.mutable_sampling()->add_stop_token_ids(3);
  failing.mutable_sampling()->set_min_total_tokens(8);
  *step.add_started() = failing;
  AddRow(step, 0, 5);
  AddRow(step, 1, 5);
  v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(0));
  ASSERT_THAT(result.errors(), SizeIs(1));
  EXPECT_EQ(result.errors(0).slot(), 1u);
  EXPECT_EQ(result.errors(0).code(), static_cast<uint32_t>(absl::StatusCode::kInternal));
  EXPECT_THAT(result.errors(0).message(), HasSubstr("position 5"));

  step = worker.NextStep();
  step.set_repeat_rows(true);
  result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(0));
  EXPECT_THAT(result.inert_slots(), ElementsAre(1));
}

TEST(CpuStepRunnerRowsTest, NanLogitsFailTheirRowAlsoAmongPromptLogprobs) {
  FakeModelOptions options;
  options.max_logits_rows = 2;
  TestWorker worker(options);
  const std::vector<TokenId> prompt = MakeTokens(8, kVocabSize, 14);
  worker.Prefill(MakeStarted(1, MakeTokens(3, kVocabSize, 15), {8, 9}, 8));
  worker.model().set_after_forward([](const ForwardBatch& batch, std::span<float> logits) {
    for (const ForwardRow& row : batch.rows) {
      if (row.block_tables.front()[0] == 0 && !logits.empty()) {
        std::fill_n(logits.begin(), kVocabSize, std::numeric_limits<float>::quiet_NaN());
      }
    }
  });
  v1::StartedSlot started = MakeStarted(0, prompt, {0, 1, 2}, 16);
  started.set_first_prompt_logprob(1);
  started.mutable_sampling()->set_num_prompt_logprobs(0);
  v1::StepRequest step = worker.NextStep();
  *step.add_started() = started;
  AddRow(step, 0, 8);
  AddRow(step, 1, 1);
  const uint64_t computed = worker.model().num_tokens();
  const v1::StepResult result = worker.RunAccepted(step);
  EXPECT_THAT(result.sampled_slots(), ElementsAre(1));
  ASSERT_THAT(result.errors(), SizeIs(1));
  EXPECT_EQ(result.errors(0).slot(), 0u);
  // The rest of the failed row is not computed.
  EXPECT_EQ(worker.model().num_tokens() - computed, 2u + 1u);
}

}  // namespace
}  // namespace lockstep::worker
