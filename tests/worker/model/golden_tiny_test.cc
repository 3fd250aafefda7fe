#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/model/load_model.h"

namespace lockstep::worker {
namespace {

// docs/numerics.md: at most twice the error of a plain bf16 implementation.
constexpr double kErrorFactor = 2.0;

double RmsOf(const std::vector<double>& rms_of_rows) {
  double sum = 0.0;
  for (const double rms : rms_of_rows) sum += rms * rms;
  return std::sqrt(sum / static_cast<double>(rms_of_rows.size()));
}

class GoldenTinyTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = "tests/golden/" + GetParam();
    auto model = LoadCpuModel(folder_, {.num_kv_blocks = 16, .max_logits_rows = 128});
    ASSERT_THAT(model, IsOk());
    model_ = *std::move(model);
  }

  std::string folder_;
  std::unique_ptr<ForwardModel> model_;
};

TEST_P(GoldenTinyTest, LogitsAreAsCloseToTheReferenceAsPlainBf16) {
  for (const GoldenPrompt& prompt : ReadGoldenPrompts(folder_)) {
    SCOPED_TRACE(prompt.name);
    const uint32_t length = static_cast<uint32_t>(prompt.tokens.size());
    const std::vector<float> logits = SequenceRunner(*model_, prompt.tokens).RunInStepsOf(length);
    ASSERT_TRUE(IsFinite(logits));
    const ErrorSummary error = SummariseError(logits, prompt.logits);
    EXPECT_LE(error.rms, kErrorFactor * RmsOf(prompt.bf16_rms_error));
    EXPECT_LE(error.max, kErrorFactor * *std::max_element(prompt.bf16_max_error.begin(),
                                                          prompt.bf16_max_error.end()));
    EXPECT_GT(error.rms, 0.0) << "the fp32 reference cannot be met exactly in bf16";
  }
}

// Other instruction sets give other bits, but not other errors.
TEST_P(GoldenTinyTest, EveryInstructionSetIsAsCloseToTheReference) {
  const std::vector<GoldenPrompt> prompts = ReadGoldenPrompts(folder_);
  const GoldenPrompt& prompt = prompts.back();
  for (const kernels::InstructionSet set : kernels::AvailableInstructionSets()) {
    auto model = LoadCpuModel(
        folder_, {.num_kv_blocks = 16, .max_logits_rows = 128, .instruction_set = set});
    ASSERT_THAT(model, IsOk());
    const uint32_t length = static_cast<uint32_t>(prompt.tokens.size());
    const std::vector<float> logits = SequenceRunner(**model, prompt.tokens).RunInStepsOf(length);
    ASSERT_TRUE(IsFinite(logits));
    EXPECT_LE(SummariseError(logits, prompt.logits).rms,
              kErrorFactor * RmsOf(prompt.bf16_rms_error))
        << InstructionSetName(set);
  }
}

TEST_P(GoldenTinyTest, PrefillChunksAndDecodeGiveTheSameBits) {
  for (const GoldenPrompt& prompt : ReadGoldenPrompts(folder_)) {
    SCOPED_TRACE(prompt.name);
    const uint32_t length = static_cast<uint32_t>(prompt.tokens.size());
    SequenceRunner runner(*model_, prompt.tokens);
    const std::vector<float> whole = runner.RunInStepsOf(length);
    for (const uint32_t step_length : {1u, 3u, 16u, 17u}) {
      EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(step_length), whole)) << step_length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTinyTest,
                         ::testing::Values("tiny-llama", "tiny-llama-yarn", "tiny-qwen2",
                                           "tiny-qwen2-linear", "tiny-qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::worker
