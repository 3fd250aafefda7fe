#include "worker/model/weights/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/small_config.h"
#include "worker/model/loading.h"
#include "worker/model/weights/load_weights.h"
#include "worker/model/weights/random_codes.h"
#include "worker/model/weights/weight_plan.h"
#include "worker/model/weights/weight_source.h"

namespace lockstep::worker {
namespace {

ModelConfig ConfigWithBiasAndNorms() {
  ModelConfig config = SmallConfig();
  config.attention_qkv_bias = true;
  config.qk_norm = true;
  return config;
}

const ModelFamily& Qwen3() { return *FindModelFamily("qwen3"); }

std::vector<RandomTensorShape> SmallTensors(uint64_t seed) {
  return RandomTensors(PlanOf(ConfigWithBiasAndNorms()), Qwen3().hugging_face, seed);
}

TEST(RandomWeightsTest, ValuesAreRoughlyNormal) {
  std::vector<float> values(100'000);
  FillRandom({.seed = 5, .mean = 2.0f, .deviation = 0.5f}, 0, values);
  double sum = 0.0, squares = 0.0;
  size_t beyond_one = 0;
  for (const float value : values) {
    sum += value;
    squares += (value - 2.0) * (value - 2.0);
    if (std::abs(value - 2.0f) > 0.5f) ++beyond_one;
  }
  EXPECT_NEAR(sum / 1e5, 2.0, 0.01);
  EXPECT_NEAR(std::sqrt(squares / 1e5), 0.5, 0.01);
  // 0.317 for a normal distribution, 1/3 for the sum of four uniform ones.
  EXPECT_NEAR(static_cast<double>(beyond_one) / 1e5, 0.333, 0.01);
}

TEST(RandomWeightsTest, APieceEqualsThatPartOfTheWhole) {
  const RandomTensor tensor = {.seed = 9, .mean = 0.0f, .deviation = 1.0f};
  std::vector<float> whole(1000), piece(100);
  FillRandom(tensor, 0, whole);
  FillRandom(tensor, 300, piece);
  EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + 300));
}

TEST(RandomWeightsTest, EveryTensorHasItsOwnNumbersAndTheSeedMatters) {
  std::set<uint64_t> seeds;
  const auto tensors = SmallTensors(1);
  for (const RandomTensorShape& tensor : tensors) seeds.insert(tensor.values.seed);
  for (const RandomTensorShape& tensor : SmallTensors(2)) {
    seeds.insert(tensor.values.seed);
  }
  EXPECT_EQ(seeds.size(), 2 * tensors.size());
}

TEST(RandomWeightsTest, NormsLieAboutOneAsTheModelUsesThem) {
  TensorNames names = Qwen3().hugging_face;
  for (const bool lacks_one : {false, true}) {
    names.norms_lack_one = lacks_one;
    size_t num_norms = 0;
    for (const RandomTensorShape& tensor :
         RandomTensors(PlanOf(ConfigWithBiasAndNorms()), names, 1)) {
      if (!tensor.name.ends_with("norm.weight")) continue;
      EXPECT_EQ(tensor.values.mean, lacks_one ? 0.0f : 1.0f) << tensor.name;
      ++num_norms;
    }
    EXPECT_EQ(num_norms, 9u) << "four of each layer, and the last one";
  }
}

TEST(RandomWeightsTest, FillsExactlyWhatThePlanAsksFor) {
  for (const bool tied : {false, true}) {
    ModelConfig config = ConfigWithBiasAndNorms();
    config.tie_word_embeddings = tied;
    const ModelPlan plan = PlanOf(config);
    const WeightSource source = WeightSource::Random("a shape", Qwen3(), plan, 3);
    EXPECT_THAT(PlanWeights(plan, source), IsOk());
  }
}

TEST(RandomWeightsTest, TheFingerprintFollowsTheSeed) {
  const ModelPlan plan = PlanOf(ConfigWithBiasAndNorms());
  EXPECT_EQ(WeightSource::Random("a", Qwen3(), plan, 3).Fingerprint(),
            WeightSource::Random("b", Qwen3(), plan, 3).Fingerprint());
  EXPECT_NE(WeightSource::Random("a", Qwen3(), plan, 3).Fingerprint(),
            WeightSource::Random("a", Qwen3(), plan, 4).Fingerprint());
}

TEST(RandomCodesTest, RowsAreThoseOfTheWholeMatrixAndLieAboutZero) {
  const RandomTensor tensor = {.seed = 9, .deviation = 1.0f / 32};
  for (const RandomCodes& codes : AllRandomCodes()) {
    SCOPED_TRACE(codes.name);
    EXPECT_EQ(FindRandomCodes(codes.name)->kind, codes.kind);
    const kernels::QuantizedMatrix whole = RandomRows(tensor, codes, {0, 8, 1024});
    const kernels::QuantizedMatrix some = RandomRows(tensor, codes, {5, 2, 1024});
    std::vector<kernels::BFloat16> expected(1024), actual(1024);
    double sum = 0.0, squares = 0.0;
    for (int64_t row = 0; row < 8; ++row) {
      kernels::DequantizeRow(whole, row, expected.data());
      for (const kernels::BFloat16 value : expected) {
        sum += kernels::ToFloat(value);
        squares += kernels::ToFloat(value) * kernels::ToFloat(value);
      }
      if (row < 5 || row > 6) continue;
      kernels::DequantizeRow(some, row - 5, actual.data());
      EXPECT_TRUE(IsSameBits(actual, expected)) << row;
    }
    EXPECT_NEAR(sum / 8192, 0.0, 0.01);
    EXPECT_NEAR(std::sqrt(squares / 8192), 1.0 / 32, 0.01);
  }
  EXPECT_EQ(FindRandomCodes("q3_k"), std::nullopt);
}

TEST(RandomCodesTest, ATensorIsReadAsTheValuesOfItsCodes) {
  ModelConfig config = ConfigWithBiasAndNorms();
  config.hidden_size = 256;
  const ModelPlan plan = PlanOf(config);
  const WeightSource source = WeightSource::Random(
      "a shape", Qwen3(), plan, 3, [](std::string_view) { return FindRandomCodes("q4_k"); });
  const SourceTensor* const tensor = source.Find("model.layers.1.self_attn.q_proj.weight");
  ASSERT_NE(tensor, nullptr);
  ASSERT_TRUE(HasCodes(*tensor));
  EXPECT_FALSE(HasCodes(*source.Find("model.embed_tokens.weight")));
  const auto matrix = ReadCodes(*tensor);
  ASSERT_THAT(matrix, IsOk());
  std::vector<kernels::BFloat16> row(256);
  std::vector<float> values(256);
  for (const int64_t i : {int64_t{0}, matrix->n - 1}) {
    kernels::DequantizeRow(*matrix, i, row.data());
    ASSERT_THAT(ReadRows(*tensor, i, 256, values), IsOk());
    for (size_t j = 0; j < row.size(); ++j) ASSERT_EQ(values[j], kernels::ToFloat(row[j]));
  }
  EXPECT_NE(source.Fingerprint(), WeightSource::Random("a shape", Qwen3(), plan, 3).Fingerprint());
}

TEST(RandomCodesTest, AModelHasTheCodesThatItsConfigurationNames) {
  const TempFolder folder;
  for (const char* const file : {"config.json", "tokenizer.json"}) {
    std::filesystem::copy_file(std::string("tests/golden/tiny-qwen3/") + file,
                               folder.path() + "/" + file);
  }
  nlohmann::json config = nlohmann::json::parse(std::ifstream(folder.path() + "/config.json"));
  config["quantization_config"] = {
      {"quant_method", "awq"}, {"bits", 4},         {"group_size", 32},
      {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", {"down_proj"}}};
  folder.Write("config.json", config.dump());
  const ModelOptions options = {.num_kv_blocks = 4, .random_weights = true};
  const auto description = DescribeModel(folder.path(), options, "cpu");
  ASSERT_THAT(description, IsOk());
  const auto source = OpenWeights(folder.path(), *description, options);
  ASSERT_THAT(source, IsOk());
  const SourceTensor* const q = source->Find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  ASSERT_TRUE(HasCodes(*q));
  const auto codes = ReadCodes(*q);
  ASSERT_THAT(codes, IsOk());
  EXPECT_EQ(codes->kind, kernels::CodeKind::kInt4);
  EXPECT_EQ(codes->group_columns, 32);
  EXPECT_FALSE(codes->zeros.empty());
  EXPECT_FALSE(HasCodes(*source->Find("model.layers.0.mlp.down_proj.weight")));
  EXPECT_FALSE(HasCodes(*source->Find("model.embed_tokens.weight")));
}

TEST(WeightLayoutTest, AProductOfWhichSomeMatricesHaveCodesMayBeRefused) {
  const ModelPlan model = PlanOf(ConfigWithBiasAndNorms());
  const WeightSource source = WeightSource::Random(
      "a shape", Qwen3(), model, 3, [](std::string_view module) -> std::optional<RandomCodes> {
        if (module.ends_with("v_proj") || module.ends_with("lm_head")) return std::nullopt;
        return FindRandomCodes("int8-g32");
      });
  WeightStorage storage = {.layout = WeightLayout::kRowMajor, .packs = true};
  EXPECT_THAT(PlanWeights(model, source, storage), IsOk());
  storage.packs_whole_products = true;
  EXPECT_THAT(PlanWeights(model, source, storage),
              HasError(absl::StatusCode::kInvalidArgument,
                       ::testing::HasSubstr(
                           "tensor model.layers.0.self_attn.q_proj.weight is quantised, but "
                           "model.layers.0.self_attn.v_proj.weight, of the same product, is not")));
}

TEST(WeightLayoutTest, RowMajorHoldsTheRowsOfAllPartsInOrder) {
  ModelConfig config = ConfigWithBiasAndNorms();
  config.tie_word_embeddings = true;
  const ModelPlan model = PlanOf(config);
  const WeightSource source = WeightSource::Random("a shape", Qwen3(), model, 3);
  auto plan = PlanWeights(model, source, {.layout = WeightLayout::kRowMajor});
  ASSERT_THAT(plan, IsOk());
  kernels::ThreadPool threads(2);
  ASSERT_THAT(RunLoadTasks(plan->tasks, threads, nullptr), IsOk());

  const ModelWeights& weights = plan->weights;
  const kernels::BFloat16* const embedding = weights.model[ModelPart::kTokenEmbedding].rows;
  EXPECT_EQ(weights.model[ModelPart::kLmHead].matrix.data, embedding);
  const auto expect_rows = [&](const char* name, const kernels::BFloat16* rows, int64_t count) {
    const SourceTensor* tensor = source.Find(name);
    ASSERT_NE(tensor, nullptr) << name;
    std::vector<float> values(static_cast<size_t>(count * model.hidden_size));
    ASSERT_THAT(ReadRows(*tensor, 0, model.hidden_size, values), IsOk());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(rows[i].bits, kernels::ToBFloat16(values[i]).bits) << name << " element " << i;
    }
  };
  const kernels::BFloat16* qkv = weights.layers[1][LayerPart::kQkv].matrix.data;
  expect_rows("model.layers.1.self_attn.q_proj.weight", qkv, 32);
  expect_rows("model.layers.1.self_attn.k_proj.weight", qkv + 32 * 32, 16);
  expect_rows("model.layers.1.self_attn.v_proj.weight", qkv + 48 * 32, 16);
  expect_rows("model.embed_tokens.weight", embedding, 70);
}

}  // namespace
}  // namespace lockstep::worker
