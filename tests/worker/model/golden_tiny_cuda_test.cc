// The tiny checkpoints on a GPU; see golden_tiny_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/worker/model/golden_check.h"
#include "worker/model/cuda_forward_model.h"
#include "worker/model/cuda_model.h"

namespace lockstep::worker {
namespace {

class GoldenTinyCudaTest : public testing::CudaTest,
                           public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    folder_ = "tests/golden/" + GetParam();
    auto model = LoadCudaModel(
        folder_,
        {.num_kv_blocks = 16, .max_slots = 8, .max_step_tokens = 256, .max_logits_rows = 128});
    ASSERT_THAT(model, IsOk());
    model_ = *std::move(model);
    // What no token has written must not matter.
    ASSERT_EQ(cudaMemset(model_->kv_bytes().data(), 0xFF, model_->kv_bytes().size()), cudaSuccess);
    auto forward_model = CudaForwardModel::Create(*model_);
    ASSERT_THAT(forward_model, IsOk());
    forward_model_ = *std::move(forward_model);
  }
  void TearDown() override {
    forward_model_.reset();
    model_.reset();
    CudaTest::TearDown();
  }

  std::string folder_;
  std::unique_ptr<CudaModel> model_;
  std::unique_ptr<CudaForwardModel> forward_model_;
};

TEST_P(GoldenTinyCudaTest, LogitsAreAsCloseToTheReferenceAsPlainBf16) {
  ExpectCloseToGolden(*forward_model_, folder_);
}

TEST_P(GoldenTinyCudaTest, PrefillChunksAndDecodeGiveTheSameBits) {
  ExpectSameBitsInAnySteps(*forward_model_, folder_);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenTinyCudaTest,
                         ::testing::Values("tiny-llama", "tiny-llama-yarn", "tiny-qwen2",
                                           "tiny-qwen2-linear", "tiny-qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::worker
