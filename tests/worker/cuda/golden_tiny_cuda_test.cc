// The tiny checkpoints on a GPU; see golden_tiny_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/worker/cuda/poisoned_cuda_model.h"
#include "tests/worker/model/golden_check.h"

namespace lockstep::worker {
namespace {

class GoldenTinyCudaTest : public testing::CudaTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    folder_ = "tests/golden/" + GetParam();
    auto cuda = LoadPoisonedCudaModel(
        folder_,
        {.num_kv_blocks = 16, .max_slots = 8, .max_step_tokens = 256, .max_logits_rows = 128});
    ASSERT_THAT(cuda, IsOk());
    cuda_ = *std::move(cuda);
  }
  void TearDown() override {
    cuda_.reset();
    CudaTest::TearDown();
  }

  std::string folder_;
  std::optional<PoisonedCudaModel> cuda_;
};

TEST_P(GoldenTinyCudaTest, LogitsAreAsCloseToTheReferenceAsPlainBf16) {
  ExpectCloseToGolden(*cuda_->forward_model, folder_);
}

TEST_P(GoldenTinyCudaTest, PrefillChunksAndDecodeGiveTheSameBits) {
  ExpectSameBitsInAnySteps(*cuda_->forward_model, folder_);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTinyCudaTest,
                         ::testing::Values("tiny-llama", "tiny-llama-yarn", "tiny-qwen2",
                                           "tiny-qwen2-linear", "tiny-qwen3", "tiny-gpt2",
                                           "tiny-gpt2-older"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::worker
