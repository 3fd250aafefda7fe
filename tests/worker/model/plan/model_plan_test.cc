#include "worker/model/plan/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_config.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config = SmallConfig();
  config.head_dim = 32;
  config.qk_norm = true;
  return config;
}

TEST(ModelPlanTest, TakesSizesFromTheConfig) {
  const ModelPlan plan = PlanOf(Config());
  ASSERT_EQ(plan.kinds.size(), 1u);
  const AttentionPlan& attention = plan.kinds[0].attention;
  EXPECT_EQ(attention.q_size(), 128);
  EXPECT_EQ(attention.kv_size(), 64);
  EXPECT_EQ(attention.qkv_size(), 256);
  EXPECT_FLOAT_EQ(attention.scale, 0.176776695f);
  EXPECT_TRUE(plan.kinds[0].parts[LayerPart::kQNorm].exists());
  EXPECT_FALSE(plan.kinds[0].parts[LayerPart::kQkv].has_bias);
}

TEST(ModelPlanTest, NamesSizesThatTheKernelsDoNotTake) {
  ModelConfig config = Config();
  config.head_dim = 1024;
  EXPECT_THAT(MakeModelPlan(config),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("head size is 1024")));
  config = Config();
  config.intermediate_size = 161;
  EXPECT_THAT(MakeModelPlan(config),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("intermediate size is 161")));
  config = Config();
  config.num_kv_heads = 3;
  EXPECT_THAT(MakeModelPlan(config), ::testing::Not(IsOk()));
}

TEST(ModelPlanTest, AGatedMlpStacksGateAndUp) {
  const ModelPlan plan = PlanOf(SmallConfig());
  const auto& layer = plan.kinds.front().parts;
  EXPECT_EQ(layer[LayerPart::kMlpInput].num_outputs, 96);
  EXPECT_EQ(layer[LayerPart::kMlpInput].pieces.size(), 2u);
  EXPECT_EQ(layer[LayerPart::kQkv].num_outputs, 64);
  EXPECT_EQ(layer[LayerPart::kQkv].pieces.size(), 3u);
  EXPECT_FALSE(layer[LayerPart::kQNorm].exists());
  EXPECT_FALSE(plan.parts[ModelPart::kPositionEmbedding].exists());
}

TEST(ModelPlanTest, PartsFollowTheKindsOfTheConfig) {
  ModelConfig config = SmallConfig();
  config.norm = NormKind::kLayer;
  config.mlp = MlpKind::kGeluTanh;
  config.positions = PositionKind::kLearned;
  const ModelPlan plan = PlanOf(config);
  EXPECT_EQ(plan.kinds.front().parts[LayerPart::kMlpInput].num_outputs, 48);
  EXPECT_TRUE(plan.kinds.front().parts[LayerPart::kMlpNorm].has_bias);
  EXPECT_EQ(plan.parts[ModelPart::kPositionEmbedding].num_outputs, 64);
}

TEST(ModelPlanTest, LayersThatAreAlikeAreOneKindAndShareAPool) {
  const ModelPlan plan = PlanOf(SmallConfig());
  EXPECT_EQ(plan.num_layers(), 2);
  EXPECT_EQ(plan.kinds.size(), 1u);
  EXPECT_EQ(plan.rotations.size(), 1u);
  ASSERT_EQ(plan.kv_groups.size(), 1u);
  EXPECT_THAT(plan.kv_groups[0].layers, ElementsAre(0, 1));
  EXPECT_EQ(plan.kv_groups[0].num_kv_heads, 2);
  EXPECT_EQ(plan.kv_groups[0].head_dim, 8);
  EXPECT_EQ(plan.layers[1].index_in_group, 1);
  EXPECT_EQ(plan.ShortestWindow(), 0);
}

// Six layers: every third one reads all tokens, and rotates by another base.
ModelConfig LocalAndGlobalLayers() {
  ModelConfig config = SmallConfig();
  config.num_layers = 6;
  RopeConfig global_rope;
  global_rope.theta = 1e6;
  config.layer_kinds = {{.window_tokens = 32, .rope = {}},
                        {.window_tokens = 0, .rope = global_rope}};
  config.kind_of_layer = {0, 0, 1, 0, 0, 1};
  return config;
}

TEST(ModelPlanTest, LayersWithAWindowHaveAGroupOfTheirOwn) {
  const ModelPlan plan = PlanOf(LocalAndGlobalLayers());
  ASSERT_EQ(plan.kinds.size(), 2u);
  ASSERT_EQ(plan.kv_groups.size(), 2u);
  EXPECT_EQ(plan.kv_groups[0].window_tokens, 0);
  EXPECT_THAT(plan.kv_groups[0].layers, ElementsAre(2, 5));
  EXPECT_EQ(plan.kv_groups[1].window_tokens, 32);
  EXPECT_THAT(plan.kv_groups[1].layers, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(plan.KindOf(0).attention.kv_group, 1u);
  EXPECT_EQ(plan.KindOf(0).attention.window_tokens, 32);
  EXPECT_EQ(plan.KindOf(5).attention.kv_group, 0u);
  EXPECT_EQ(plan.KindOf(5).attention.window_tokens, 0);
  std::vector<int64_t> indices;
  for (const LayerPlan& layer : plan.layers) indices.push_back(layer.index_in_group);
  EXPECT_THAT(indices, ElementsAre(0, 1, 0, 2, 3, 1));
  EXPECT_EQ(plan.ShortestWindow(), 32);
}

TEST(ModelPlanTest, EveryKindHasItsRotation) {
  const ModelPlan plan = PlanOf(LocalAndGlobalLayers());
  ASSERT_EQ(plan.rotations.size(), 2u);
  EXPECT_EQ(plan.rotations[plan.KindOf(0).attention.rotation].rope.theta, 1e4);
  EXPECT_EQ(plan.rotations[plan.KindOf(2).attention.rotation].rope.theta, 1e6);
}

TEST(ModelPlanTest, EachLengthOfWindowHasAGroup) {
  ModelConfig config = LocalAndGlobalLayers();
  config.layer_kinds = {{.window_tokens = 32, .rope = {}},
                        {.window_tokens = 16, .rope = {}},
                        {.window_tokens = 0, .rope = {}}};
  config.kind_of_layer = {0, 1, 2, 1, 0, 2};
  const ModelPlan plan = PlanOf(config);
  ASSERT_EQ(plan.kv_groups.size(), 3u);
  EXPECT_THAT(plan.kv_groups[0].layers, ElementsAre(2, 5));
  EXPECT_THAT(plan.kv_groups[1].layers, ElementsAre(0, 4));
  EXPECT_THAT(plan.kv_groups[2].layers, ElementsAre(1, 3));
  EXPECT_EQ(plan.kv_groups[2].window_tokens, 16);
  EXPECT_EQ(plan.rotations.size(), 1u);
  EXPECT_EQ(plan.ShortestWindow(), 16);
}

TEST(ModelPlanTest, IfAllLayersHaveWindowsTheFirstGroupHoldsThem) {
  ModelConfig config = LocalAndGlobalLayers();
  config.layer_kinds[1].window_tokens = 48;
  const ModelPlan plan = PlanOf(config);
  ASSERT_EQ(plan.kv_groups.size(), 1u);
  EXPECT_EQ(plan.kv_groups[0].window_tokens, 0) << "it keeps all tokens";
  EXPECT_THAT(plan.kv_groups[0].layers, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(plan.KindOf(0).attention.window_tokens, 32);
  EXPECT_EQ(plan.KindOf(2).attention.window_tokens, 48);
}

TEST(ModelPlanTest, AWindowAsLongAsTheContextIsNone) {
  ModelConfig config = LocalAndGlobalLayers();
  config.layer_kinds[0].window_tokens = config.max_context_tokens;
  const ModelPlan plan = PlanOf(config);
  EXPECT_EQ(plan.kv_groups.size(), 1u);
  EXPECT_EQ(plan.KindOf(0).attention.window_tokens, 0);
  EXPECT_EQ(plan.kinds.size(), 2u) << "they rotate by different bases";
  config.layer_kinds[1].rope = config.layer_kinds[0].rope;
  EXPECT_EQ(PlanOf(config).kinds.size(), 1u);
}

TEST(ModelPlanTest, WithoutAListAllLayersAreOfTheFirstKind) {
  ModelConfig config = LocalAndGlobalLayers();
  config.kind_of_layer.clear();
  const ModelPlan plan = PlanOf(config);
  EXPECT_EQ(plan.kinds.size(), 1u);
  EXPECT_EQ(plan.KindOf(5).attention.window_tokens, 32);
  EXPECT_EQ(plan.kv_groups.size(), 1u);
}

}  // namespace
}  // namespace lockstep::worker
