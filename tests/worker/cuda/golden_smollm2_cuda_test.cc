// SmolLM2 on a GPU; see golden_smollm2_test.cc.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/cuda/poisoned_cuda_model.h"
#include "tests/worker/model/distribution_check.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

class GoldenSmolLm2CudaTest : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!std::filesystem::exists(kSmolLm2Path)) {
      GTEST_SKIP() << "no model file: skipped (" << kSmolLm2Path
                   << " is missing, deploy/fetch-model fetches it)";
    }
    if (!check_) Load();
  }
  static void TearDownTestSuite() {
    check_.reset();
    cuda_.reset();
  }

  static ModelOptions Options() {
    return {.num_kv_blocks = kSmolLm2KvBlocks,
            .max_slots = 8,
            .max_step_tokens = kSmolLm2MaxTokens,
            .max_logits_rows = kSmolLm2MaxTokens};
  }

  static void Load() {
    auto cuda = LoadPoisonedCudaModel(kSmolLm2Path, Options());
    ASSERT_THAT(cuda, IsOk());
    cuda_ = *std::move(cuda);
    check_ = std::make_unique<SmolLm2Check>(*cuda_->forward_model);
  }

  static inline std::optional<PoisonedCudaModel> cuda_;
  static inline std::unique_ptr<SmolLm2Check> check_;
};

TEST_F(GoldenSmolLm2CudaTest, ErrorIsWithinTwiceThatOfPlainBf16) {
  check_->ExpectErrorWithinTwiceThatOfPlainBf16();
}

TEST_F(GoldenSmolLm2CudaTest, BestTokenIsTheReferencesWhereItIsDecided) {
  check_->ExpectReferencesBestTokenWhereItIsDecided();
}

TEST_F(GoldenSmolLm2CudaTest, GreedyTextIsTheReferencesWhileItIsDecided) {
  check_->ExpectReferencesGreedyTextWhileItIsDecided();
}

TEST_F(GoldenSmolLm2CudaTest, DecodingGivesTheBitsOfPrefill) {
  check_->ExpectSameBitsFromDecodingAsFromPrefill();
}

TEST_F(GoldenSmolLm2CudaTest, LogitsAreCloseToThoseOfTheCpu) {
  auto cpu = LoadCpuModel(
      kSmolLm2Path, {.num_kv_blocks = kSmolLm2KvBlocks, .max_logits_rows = kSmolLm2MaxTokens});
  ASSERT_THAT(cpu, IsOk());
  check_->ExpectCloseTo(**cpu);
}

TEST_F(GoldenSmolLm2CudaTest, AnFp8CacheIsCloseToBf16AndKeepsItsBits) {
  ModelOptions options = Options();
  options.kv_type = kernels::KvType::kFp8;
  auto fp8 = LoadPoisonedCudaModel(kSmolLm2Path, options);
  ASSERT_THAT(fp8, IsOk());
  const std::vector<TokenId> tokens = SmolLm2Tokens(kSmolLm2MaxTokens);
  const std::vector<float> expected =
      SequenceRunner(*cuda_->forward_model, tokens).RunInStepsOf(kSmolLm2MaxTokens);
  const std::vector<float> logits =
      SequenceRunner(*fp8->forward_model, tokens).RunInStepsOf(kSmolLm2MaxTokens);
  // As in golden_smollm2_test.cc.
  ExpectCloseDistributions("fp8 KV cache", expected, logits, cuda_->model->info().vocab_size,
                           {.max_kl = 0.023, .min_agreement = 0.934});
  SequenceRunner short_runner(*fp8->forward_model, std::span(tokens).first(70));
  const std::vector<float> whole = short_runner.RunInStepsOf(70);
  EXPECT_TRUE(IsSameBits(short_runner.RunInStepsOf(1), whole));
  EXPECT_TRUE(IsSameBits(whole, std::span(logits).first(whole.size())));
}

}  // namespace
}  // namespace lockstep::worker
