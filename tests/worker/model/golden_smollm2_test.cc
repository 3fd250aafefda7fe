#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/smollm2_check.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

class GoldenSmolLm2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(std::filesystem::exists(kSmolLm2Path))
        << kSmolLm2Path << " is missing: run deploy/fetch-model";
    auto model = LoadCpuModel(
        kSmolLm2Path, {.num_kv_blocks = kSmolLm2KvBlocks, .max_logits_rows = kSmolLm2MaxTokens});
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

}  // namespace
}  // namespace lockstep::worker
