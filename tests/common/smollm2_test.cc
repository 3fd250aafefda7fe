// The readers on a real file: SmolLM2-135M-Instruct as it is published.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/model_files/model_family.h"
#include "kernels/quant/dequantize.h"
#include "tests/common/status_matchers.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

constexpr char kPath[] = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";

class SmolLm2Test : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(kPath)) << kPath << " is missing: run deploy/fetch-model";
  }
};

TEST_F(SmolLm2Test, HasItsPublishedHyperparameters) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(kPath);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->family, FindModelFamily("llama"));
  EXPECT_EQ(config->num_layers, 30u);
  EXPECT_EQ(config->hidden_size, 576u);
  EXPECT_EQ(config->intermediate_size, 1536u);
  EXPECT_EQ(config->num_heads, 9u);
  EXPECT_EQ(config->num_kv_heads, 3u);
  EXPECT_EQ(config->head_dim, 64u);
  EXPECT_EQ(config->vocab_size, 49152u);
  EXPECT_EQ(config->max_context_tokens, 8192u);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_EQ(config->rope.scaling, RopeScalingKind::kNone);
  EXPECT_EQ(config->norm_eps, static_cast<double>(1e-5f));
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->bos_token_id, 1u);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(0, 2));  // <|endoftext|>, <|im_end|>
}

TEST_F(SmolLm2Test, EveryTensorIsReadable) {
  const absl::StatusOr<GgufFile> file = GgufFile::Open(kPath);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(file->tensors().size(), 272u);
  const GgufTensor* embedding = file->FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(embedding->shape, ElementsAre(49152, 576));
  for (const GgufTensor& tensor : file->tensors()) {
    std::vector<float> values(1);
    for (const uint64_t size : tensor.shape) values.resize(values.size() * size);
    ASSERT_THAT(kernels::Dequantize(tensor.type, tensor.data, values), IsOk()) << tensor.name;
    double sum_of_squares = 0;
    for (const float value : values) sum_of_squares += static_cast<double>(value) * value;
    const double rms = std::sqrt(sum_of_squares / static_cast<double>(values.size()));
    EXPECT_GT(rms, 1e-3) << tensor.name;
    EXPECT_LT(rms, 100.0) << tensor.name;
  }
}

}  // namespace
}  // namespace lockstep
