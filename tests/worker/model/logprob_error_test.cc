// How far the log-probabilities of prompts are from those of transformers in fp32, on every
// instruction set: no further than those of transformers in bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

double LogprobOf(std::span<const float> logits, TokenId token) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return logits[token] - max - std::log(sum);
}

class LogprobErrorTest : public ::testing::TestWithParam<kernels::InstructionSet> {};

TEST_P(LogprobErrorTest, IsAtMostThatOfPlainBf16) {
  const ReferenceLogprobs reference = ReadReferenceLogprobs("tests/golden/smollm2/logprobs.json");
  const auto model = LoadCpuModel(kSmolLm2Path, {.num_kv_blocks = kSmolLm2KvBlocks,
                                                 .max_logits_rows = kSmolLm2MaxTokens,
                                                 .instruction_set = GetParam()});
  ASSERT_THAT(model, IsOk()) << "deploy/fetch-model fetches the model";
  const size_t vocab_size = (*model)->info().vocab_size;
  double sum = 0.0;
  size_t count = 0;
  for (const ReferenceLogprobs::Prompt& prompt : reference.prompts) {
    const std::vector<float> logits =
        SequenceRunner(**model, prompt.tokens)
            .RunInStepsOf(static_cast<uint32_t>(prompt.tokens.size()));
    for (size_t i = 0; i < prompt.logprobs.size(); ++i) {
      const std::span<const float> row(logits.data() + i * vocab_size, vocab_size);
      sum += std::abs(LogprobOf(row, prompt.tokens[i + 1]) - prompt.logprobs[i]);
      ++count;
    }
  }
  EXPECT_GE(count, 1000u);
  const double mean = sum / static_cast<double>(count);
  EXPECT_LE(mean, reference.bf16_mean_error);
  EXPECT_GT(mean, 0.0);
  std::printf("mean_logprob_error: %.5f, of plain bf16: %.5f, over %zu tokens\n", mean,
              reference.bf16_mean_error, count);
  RecordProperty("mean_logprob_error", std::to_string(mean));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, LogprobErrorTest, kernels::EveryInstructionSet(),
                         kernels::InstructionSetTestName);

}  // namespace
}  // namespace lockstep::worker
