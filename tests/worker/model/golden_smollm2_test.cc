#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/golden_logits.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/model/load_model.h"

// SmolLM2-135M from its GGUF file against transformers in fp32 on the same file, 20 prompts x 64
// positions, teacher forced.
namespace lockstep::worker {
namespace {

constexpr char kModelPath[] = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr double kErrorFactor = 2.0;
constexpr double kMinQualifying = 0.9;

// What this implementation and the plain bf16 run have in common and differ in, over all positions.
struct Comparison {
  double sum_of_squares = 0.0;
  double max_error = 0.0;
  double bf16_sum_of_squares = 0.0;
  double bf16_max_error = 0.0;
  size_t num_positions = 0;

  double rms() const { return std::sqrt(sum_of_squares / static_cast<double>(num_positions)); }
  double bf16_rms() const {
    return std::sqrt(bf16_sum_of_squares / static_cast<double>(num_positions));
  }
};

// One position of one prompt: what this implementation chooses and what the reference says.
struct Scored {
  TokenId best;
  TokenId reference_best;
  double reference_gap;   // between its two best logits
  double measured_error;  // the larger one of ours and of plain bf16, at this position
};

class GoldenSmolLm2Test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(std::filesystem::exists(kModelPath))
        << kModelPath << " is missing: run deploy/fetch-model";
    auto model = LoadCpuModel(kModelPath, {.num_kv_blocks = 64, .max_logits_rows = 512});
    ASSERT_THAT(model, IsOk());
    model_ = *std::move(model);
    reference_ = ReadSmolLm2Reference("tests/golden/smollm2");
    for (const ReferencePrompt& prompt : reference_.prompts) Score(prompt);
  }

  static void TearDownTestSuite() { model_.reset(); }

  static void Score(const ReferencePrompt& prompt) {
    std::vector<TokenId> tokens = prompt.prompt;
    tokens.insert(tokens.end(), prompt.continuation.begin(), prompt.continuation.end());
    const std::vector<float> logits =
        SequenceRunner(*model_, tokens).RunInStepsOf(static_cast<uint32_t>(tokens.size()));
    ASSERT_TRUE(IsFinite(logits));
    const size_t vocab_size = model_->info().vocab_size;
    for (size_t i = 0; i < prompt.positions.size(); ++i) {
      ScorePosition(
          std::span(logits).subspan((prompt.prompt.size() - 1 + i) * vocab_size, vocab_size),
          prompt.positions[i]);
    }
  }

  static void ScorePosition(std::span<const float> logits, const ReferencePosition& reference) {
    std::vector<float> subset;
    for (const TokenId id : reference_.subset_ids) subset.push_back(logits[id]);
    const ErrorSummary error = SummariseError(subset, reference.subset_logits);
    comparison_.sum_of_squares += error.rms * error.rms;
    comparison_.max_error = std::max(comparison_.max_error, error.max);
    comparison_.bf16_sum_of_squares +=
        static_cast<double>(reference.bf16_rms_error) * reference.bf16_rms_error;
    comparison_.bf16_max_error =
        std::max<double>(comparison_.bf16_max_error, reference.bf16_max_error);
    ++comparison_.num_positions;
    scored_.push_back(
        {static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()),
         reference.best, reference.best_logit - reference.second_logit,
         std::max<double>(error.max, reference.bf16_max_error)});
  }

  static inline std::unique_ptr<ForwardModel> model_;
  static inline SmolLm2Reference reference_;
  static inline Comparison comparison_;
  static inline std::vector<Scored> scored_;
};

TEST_F(GoldenSmolLm2Test, ErrorIsWithinTwiceThatOfPlainBf16) {
  ASSERT_EQ(comparison_.num_positions, 1280u);
  EXPECT_LE(comparison_.rms(), kErrorFactor * comparison_.bf16_rms());
  EXPECT_LE(comparison_.max_error, kErrorFactor * comparison_.bf16_max_error);
  RecordProperty("rms_error", std::to_string(comparison_.rms()));
  RecordProperty("max_error", std::to_string(comparison_.max_error));
  RecordProperty("bf16_rms_error", std::to_string(comparison_.bf16_rms()));
  RecordProperty("bf16_max_error", std::to_string(comparison_.bf16_max_error));
}

TEST_F(GoldenSmolLm2Test, BestTokenIsTheReferencesWhereItIsDecided) {
  ASSERT_EQ(scored_.size(), 1280u);
  size_t num_decided = 0;
  for (size_t i = 0; i < scored_.size(); ++i) {
    if (scored_[i].reference_gap <= 2.0 * scored_[i].measured_error) continue;
    ++num_decided;
    EXPECT_EQ(scored_[i].best, scored_[i].reference_best)
        << "position " << i << ", gap " << scored_[i].reference_gap;
  }
  EXPECT_GE(static_cast<double>(num_decided), kMinQualifying * static_cast<double>(scored_.size()));
  RecordProperty("num_decided", std::to_string(num_decided));
}

TEST_F(GoldenSmolLm2Test, DecodingGivesTheBitsOfPrefill) {
  const ReferencePrompt& prompt = reference_.prompts.front();
  std::vector<TokenId> tokens = prompt.prompt;
  tokens.insert(tokens.end(), prompt.continuation.begin(), prompt.continuation.begin() + 24);
  SequenceRunner runner(*model_, tokens);
  const std::vector<float> whole = runner.RunInStepsOf(static_cast<uint32_t>(tokens.size()));
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(1), whole));
  EXPECT_TRUE(IsSameBits(runner.RunInStepsOf(7), whole));
}

}  // namespace
}  // namespace lockstep::worker
