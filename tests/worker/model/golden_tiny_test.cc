#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/golden_check.h"
#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

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
  ExpectCloseToGolden(*model_, folder_);
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
  ExpectSameBitsInAnySteps(*model_, folder_);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTinyTest,
                         ::testing::Values("tiny-llama", "tiny-llama-yarn", "tiny-qwen2",
                                           "tiny-qwen2-linear", "tiny-qwen3", "tiny-qwen3-window",
                                           "tiny-gpt2", "tiny-gpt2-older"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::worker
