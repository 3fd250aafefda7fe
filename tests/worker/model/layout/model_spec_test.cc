#include "worker/model/layout/model_spec.h"

#include <gtest/gtest.h>

#include "common/model_files/model_family.h"
#include "tests/common/status_matchers.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

ModelConfig ValidConfig() {
  ModelConfig config;
  config.family = FindModelFamily("qwen3");
  config.name = "tiny";
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 32;
  config.vocab_size = 100;
  config.max_context_tokens = 256;
  config.qk_norm = true;
  config.eos_token_ids = {1};
  return config;
}

TEST(ModelSpecTest, TakesSizesFromTheConfig) {
  const absl::StatusOr<ModelSpec> spec = MakeModelSpec(ValidConfig());
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->q_size(), 128);
  EXPECT_EQ(spec->kv_size(), 64);
  EXPECT_EQ(spec->qkv_size(), 256);
  EXPECT_FLOAT_EQ(spec->attention_scale, 0.176776695f);
  EXPECT_TRUE(spec->qk_norm);
  EXPECT_FALSE(spec->qkv_bias);
}

TEST(ModelSpecTest, NamesSizesThatTheKernelsDoNotTake) {
  ModelConfig config = ValidConfig();
  config.head_dim = 1024;
  EXPECT_THAT(MakeModelSpec(config),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("head size is 1024")));
  config = ValidConfig();
  config.intermediate_size = 161;
  EXPECT_THAT(MakeModelSpec(config),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("intermediate size is 161")));
  config = ValidConfig();
  config.num_kv_heads = 3;
  EXPECT_THAT(MakeModelSpec(config), ::testing::Not(IsOk()));
}

}  // namespace
}  // namespace lockstep::worker
