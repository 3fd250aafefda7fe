#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/distribution_check.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "tests/worker/model/weights/swapped_weights.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

class GoldenSmolLm2Test : public ::testing::Test {
 protected:
  static ModelOptions Options() {
    return {.num_kv_blocks = kSmolLm2KvBlocks, .max_logits_rows = kSmolLm2MaxTokens};
  }
  static void SetUpTestSuite() {
    ASSERT_TRUE(std::filesystem::exists(kSmolLm2Path))
        << kSmolLm2Path << " is missing: run deploy/fetch-model";
    auto model = LoadCpuModel(kSmolLm2Path, Options());
    ASSERT_THAT(model, IsOk());
    model_ = *std::move(model);
    check_ = std::make_unique<SmolLm2Check>(*model_);
  }
  static void TearDownTestSuite() {
    check_.reset();
    model_.reset();
  }

  static inline std::unique_ptr<ForwardModel> model_;
  static inline std::unique_ptr<SmolLm2Check> check_;
};

TEST_F(GoldenSmolLm2Test, ErrorIsWithinTwiceThatOfPlainBf16) {
  check_->ExpectErrorWithinTwiceThatOfPlainBf16();
}

TEST_F(GoldenSmolLm2Test, BestTokenIsTheReferencesWhereItIsDecided) {
  check_->ExpectReferencesBestTokenWhereItIsDecided();
}

TEST_F(GoldenSmolLm2Test, GreedyTextIsTheReferencesWhileItIsDecided) {
  check_->ExpectReferencesGreedyTextWhileItIsDecided();
}

TEST_F(GoldenSmolLm2Test, DecodingGivesTheBitsOfPrefill) {
  check_->ExpectSameBitsFromDecodingAsFromPrefill();
}

// docs/numerics.md has the figures. The bounds are twice as wide.
TEST_F(GoldenSmolLm2Test, AnFp8CacheIsCloseToBf16) {
  const std::vector<TokenId> tokens = SmolLm2Tokens(kSmolLm2MaxTokens);
  ModelOptions options = Options();
  options.kv_type = kernels::KvType::kFp8;
  const auto fp8 = LoadCpuModel(kSmolLm2Path, options);
  ASSERT_THAT(fp8, IsOk());
  EXPECT_LT((*fp8)->info().memory.kv_cache_bytes * 19, model_->info().memory.kv_cache_bytes * 10);
  const std::vector<float> expected =
      SequenceRunner(*model_, tokens).RunInStepsOf(kSmolLm2MaxTokens);
  const std::vector<float> logits = SequenceRunner(**fp8, tokens).RunInStepsOf(kSmolLm2MaxTokens);
  ExpectCloseDistributions("fp8 KV cache", expected, logits, model_->info().vocab_size,
                           {.max_kl = 0.023, .min_agreement = 0.934});
  SequenceRunner short_runner(**fp8, std::span(tokens).first(70));
  const std::vector<float> whole = short_runner.RunInStepsOf(70);
  EXPECT_TRUE(IsSameBits(short_runner.RunInStepsOf(1), whole));
  EXPECT_TRUE(IsSameBits(whole, std::span(logits).first(whole.size())));
}

// Its rows of q and k are in another order than ours, and its types differ from tensor to tensor.
TEST_F(GoldenSmolLm2Test, PackedWeightsHaveTheBitsOfBf16) {
  const std::vector<TokenId> tokens = {1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365};
  ModelOptions options = Options();
  options.weight_form = WeightForm::kBFloat16;
  const auto converted = LoadCpuModel(kSmolLm2Path, options);
  ASSERT_THAT(converted, IsOk());
  const std::vector<float> expected = SequenceRunner(**converted, tokens).RunInStepsOf(10);
  options.weight_form = WeightForm::kPacked;
  for (const bool swaps : {false, true}) {
    if (swaps) options.make_packed_weights = SwappedWeights::Create;
    const auto packed = LoadCpuModel(kSmolLm2Path, options);
    ASSERT_THAT(packed, IsOk());
    EXPECT_THAT((*packed)->info().weights_dtype, HasSubstr(swaps ? "swapped bf16" : "Q4_1"));
    EXPECT_TRUE(IsSameBits(SequenceRunner(**packed, tokens).RunInStepsOf(10), expected));
    EXPECT_TRUE(IsSameBits(SequenceRunner(**packed, tokens).RunInStepsOf(1), expected));
    EXPECT_EQ((*packed)->info().numerics_id, (*converted)->info().numerics_id);
  }
}

}  // namespace
}  // namespace lockstep::worker
