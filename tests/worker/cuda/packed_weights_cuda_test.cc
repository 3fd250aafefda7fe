// Models whose weights stay packed on the GPU, against the same models in bf16: the same bits of
// every logit, whatever the steps, and the same numerics id.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/cuda/poisoned_cuda_model.h"
#include "tests/worker/model/sequence_runner.h"
#include "tests/worker/model/smollm2_check.h"
#include "tests/worker/model/weights/quantized_folder.h"

namespace lockstep::worker {
namespace {

constexpr uint32_t kMaxStepTokens = 512;

ModelOptions Options(WeightForm form) {
  return {.num_kv_blocks = 48,
          .max_slots = 8,
          .max_step_tokens = kMaxStepTokens,
          .max_logits_rows = kMaxStepTokens,
          .weight_form = form};
}

std::vector<TokenId> RandomTokens(uint32_t vocab_size, size_t count) {
  std::mt19937 random(7);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = random() % vocab_size;
  return tokens;
}

class PackedWeightsCudaTest : public testing::CudaTest {
 protected:
  // Steps of `step_lengths` tokens, packed, against one step in bf16.
  static void ExpectSameBits(const std::string& path, ModelOptions packed_options,
                             size_t num_tokens, const std::vector<uint32_t>& step_lengths) {
    ModelOptions plain_options = packed_options;
    packed_options.weight_form = WeightForm::kPacked;
    plain_options.weight_form = WeightForm::kBFloat16;
    const auto packed = LoadPoisonedCudaModel(path, packed_options);
    ASSERT_THAT(packed, IsOk());
    const auto plain = LoadPoisonedCudaModel(path, plain_options);
    ASSERT_THAT(plain, IsOk());
    const ForwardModelInfo& info = packed->model->info();
    EXPECT_EQ(info.numerics_id, plain->model->info().numerics_id);
    EXPECT_EQ(plain->model->info().weights_dtype, "bf16");
    EXPECT_NE(info.weights_dtype, "bf16");
    const std::vector<TokenId> tokens = RandomTokens(info.vocab_size, num_tokens);
    const std::vector<float> expected = SequenceRunner(*plain->forward_model, tokens)
                                            .RunInStepsOf(static_cast<uint32_t>(num_tokens));
    ASSERT_TRUE(IsFinite(expected));
    for (const uint32_t length : step_lengths) {
      SCOPED_TRACE(::testing::Message() << "steps of " << length);
      EXPECT_TRUE(IsSameBits(SequenceRunner(*packed->forward_model, tokens).RunInStepsOf(length),
                             expected));
    }
  }
};

// Random codes in a model whose sizes are those of a large one, divided.
class RandomCodesCudaTest : public PackedWeightsCudaTest {
 protected:
  std::string WriteConfig(bool tied) const {
    std::filesystem::copy_file("tests/golden/tiny-qwen3/tokenizer.json",
                               folder_.path() + "/tokenizer.json",
                               std::filesystem::copy_options::overwrite_existing);
    const nlohmann::json config = {{"architectures", {"Qwen3ForCausalLM"}},
                                   {"model_type", "qwen3"},
                                   {"dtype", "bfloat16"},
                                   {"vocab_size", 2048},
                                   {"hidden_size", 1024},
                                   {"intermediate_size", 1536},
                                   {"num_hidden_layers", 3},
                                   {"num_attention_heads", 8},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 128},
                                   {"max_position_embeddings", 4096},
                                   {"rms_norm_eps", 1e-6},
                                   {"rope_theta", 10000.0},
                                   {"tie_word_embeddings", tied},
                                   {"hidden_act", "silu"},
                                   {"eos_token_id", 1}};
    folder_.Write("config.json", config.dump());
    return folder_.path();
  }
  static ModelOptions RandomOptions(const RandomCodes& codes) {
    ModelOptions options = Options(WeightForm::kAuto);
    options.random_weights = true;
    options.random_codes = codes;
    return options;
  }

  const TempFolder folder_;
};

class PackedLayoutCudaTest : public PackedWeightsCudaTest,
                             public ::testing::WithParamInterface<WeightLayoutCase> {};

// Folders as tools write them. Many have groups of 16, which the GPU refuses for integers, so they
// become bf16; PackedCodesCudaTest has larger groups.
TEST_P(PackedLayoutCudaTest, EqualsTheConvertedModel) {
  const QuantizedFolder folder(GetParam());
  const std::string path = folder.Write();
  const auto packed = LoadPoisonedCudaModel(path, Options(WeightForm::kPacked));
  ASSERT_THAT(packed, IsOk());
  const auto converted = LoadPoisonedCudaModel(folder.WriteConverted(), Options(WeightForm::kAuto));
  ASSERT_THAT(converted, IsOk());
  const std::vector<TokenId> tokens = RandomTokens(packed->model->info().vocab_size, 60);
  const std::vector<float> expected =
      SequenceRunner(*converted->forward_model, tokens).RunInStepsOf(60);
  for (const uint32_t length : {1u, 7u, 60u}) {
    EXPECT_TRUE(
        IsSameBits(SequenceRunner(*packed->forward_model, tokens).RunInStepsOf(length), expected))
        << length;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedLayoutCudaTest, ::testing::ValuesIn(AllWeightLayouts()),
                         [](const auto& info) { return info.param.name; });

class PackedCodesCudaTest : public RandomCodesCudaTest,
                            public ::testing::WithParamInterface<RandomCodes> {};

TEST_P(PackedCodesCudaTest, EqualsTheConvertedModelInAnySteps) {
  // 400 and 500 rows are more than a product takes without expanding its weights.
  ExpectSameBits(WriteConfig(/*tied=*/false), RandomOptions(GetParam()), 500,
                 {1, 13, 64, 129, 300, 400, 500});
}

TEST_P(PackedCodesCudaTest, EqualsTheConvertedModelWithTiedEmbeddings) {
  ExpectSameBits(WriteConfig(/*tied=*/true), RandomOptions(GetParam()), 70, {2, 70});
}

INSTANTIATE_TEST_SUITE_P(All, PackedCodesCudaTest,
                         ::testing::ValuesIn(AllRandomCodes().begin(), AllRandomCodes().end()),
                         [](const auto& info) {
                           std::string name(info.param.name);
                           std::erase(name, '-');
                           return name;
                         });

// Activations in FP8: the same bits in any steps. They are near those of activations in bf16, and
// have another numerics id.
TEST_F(RandomCodesCudaTest, Fp8ActivationsGiveTheSameBitsInAnySteps) {
  constexpr uint32_t kNumTokens = 500;
  for (const bool tied : {false, true}) {
    const std::string path = WriteConfig(tied);
    ModelOptions options = RandomOptions(*FindRandomCodes("fp8-g128"));
    const auto plain = LoadPoisonedCudaModel(path, options);
    ASSERT_THAT(plain, IsOk());
    options.activation_form = ActivationForm::kFp8;
    const auto fp8 = LoadPoisonedCudaModel(path, options);
    ASSERT_THAT(fp8, IsOk());
    EXPECT_NE(fp8->model->info().numerics_id, plain->model->info().numerics_id);
    EXPECT_EQ(fp8->model->info().weights_dtype, "bf16+fp8 with fp8 activations");
    const std::vector<TokenId> tokens = RandomTokens(fp8->model->info().vocab_size, kNumTokens);
    const std::vector<float> expected =
        SequenceRunner(*fp8->forward_model, tokens).RunInStepsOf(kNumTokens);
    ASSERT_TRUE(IsFinite(expected));
    for (const uint32_t length : {1u, 13u, 64u, 129u, 300u, 400u}) {
      EXPECT_TRUE(
          IsSameBits(SequenceRunner(*fp8->forward_model, tokens).RunInStepsOf(length), expected))
          << "steps of " << length;
    }
    // A code has 3 bits behind the point: a relative error of up to 1/16 for each value of a
    // product. Three layers of random weights add that up.
    const std::vector<float> in_bf16 =
        SequenceRunner(*plain->forward_model, tokens).RunInStepsOf(kNumTokens);
    const ErrorSummary error = SummariseError(expected, in_bf16);
    const ErrorSummary size = SummariseError(in_bf16, std::vector<float>(in_bf16.size()));
    EXPECT_GT(error.rms, 0.0);
    EXPECT_LT(error.rms, 0.2 * size.rms);
  }
}

TEST_F(RandomCodesCudaTest, Fp8ActivationsNeedFp8Weights) {
  const std::string path = WriteConfig(/*tied=*/false);
  ModelOptions options = RandomOptions(*FindRandomCodes("int8-g32"));
  options.activation_form = ActivationForm::kFp8;
  EXPECT_THAT(LoadCudaModel(path, options),
              HasError(absl::StatusCode::kFailedPrecondition,
                       ::testing::AllOf(::testing::HasSubstr(path),
                                        ::testing::HasSubstr("needs weights in FP8"))));
}

// A small model is faster in the kernel of all layers, which takes bf16.
TEST_F(PackedWeightsCudaTest, ASmallModelBecomesBf16UnlessItIsToldNotTo) {
  if (!std::filesystem::exists(kSmolLm2Path)) {
    GTEST_SKIP() << "no model file: skipped (" << kSmolLm2Path
                 << " is missing, deploy/fetch-model fetches it)";
  }
  const auto model = LoadPoisonedCudaModel(kSmolLm2Path, Options(WeightForm::kAuto));
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->model->info().weights_dtype, "bf16");
  ExpectSameBits(kSmolLm2Path, Options(WeightForm::kPacked), 400, {1, 100, 390});
}

}  // namespace
}  // namespace lockstep::worker
