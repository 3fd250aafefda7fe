#include "worker/model/plan/tensor_rank.h"

#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_config.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

TEST(TensorRankTest, SharesAreEvenAndCoverEverything) {
  int64_t next = 0;
  for (int64_t rank = 0; rank < 3; ++rank) {
    const TensorRank of_three = {.degree = 3, .rank = rank};
    EXPECT_EQ(of_three.Share(12), 4);
    EXPECT_EQ(of_three.Begin(12), next);
    next += of_three.Share(12);
  }
  EXPECT_EQ(next, 12);
  EXPECT_EQ(TensorRank().Share(12), 12);
  EXPECT_EQ(TensorRank().Begin(12), 0);
}

TEST(TensorRankTest, EverySizeThatCannotBeSharedIsNamed) {
  // 4 heads, 2 KV heads, 32 hidden, 48 intermediate, 70 tokens.
  const ModelPlan plan = PlanOf(SmallConfig());
  EXPECT_THAT(CheckDegree(plan, 1), IsOk());
  EXPECT_THAT(CheckDegree(plan, 2), IsOk());
  EXPECT_THAT(CheckDegree(plan, 3),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("3 ranks cannot share the model evenly: heads (4), KV heads (2), "
                                 "hidden size (32), vocabulary (70) cannot be divided by 3")));
  EXPECT_THAT(CheckDegree(plan, 4),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr(": KV heads (2), vocabulary (70) cannot be divided by 4")));
  EXPECT_THAT(CheckDegree(plan, 0), HasError(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
}

TEST(TensorRankTest, ARankHasItsHeadsAndItsPartOfTheMlp) {
  const ModelPlan plan = PlanOf(SmallConfig());
  const ModelPlan share = ShareOf(plan, {.degree = 2, .rank = 1});
  const LayerKind& kind = share.kinds.front();
  EXPECT_EQ(kind.attention.num_heads, 2);
  EXPECT_EQ(kind.attention.num_kv_heads, 1);
  EXPECT_EQ(kind.attention.head_dim, 8);
  EXPECT_EQ(kind.attention.qkv_size(), plan.kinds.front().attention.qkv_size() / 2);
  EXPECT_EQ(kind.mlp.intermediate_size, 24);
  EXPECT_EQ(share.kv_groups.front().num_kv_heads, 1);
  EXPECT_EQ(share.hidden_size, plan.hidden_size);
  EXPECT_EQ(share.vocab_size, plan.vocab_size);
}

TEST(TensorRankTest, ARankHasItsShareOfEveryKindAndGroup) {
  ModelConfig config = SmallConfig();
  config.layer_kinds = {{.window_tokens = 16, .rope = {}}, {.window_tokens = 0, .rope = {}}};
  config.kind_of_layer = {0, 1};
  const ModelPlan share = ShareOf(PlanOf(config), {.degree = 2, .rank = 0});
  ASSERT_EQ(share.kinds.size(), 2u);
  for (const LayerKind& kind : share.kinds) EXPECT_EQ(kind.attention.num_kv_heads, 1);
  ASSERT_EQ(share.kv_groups.size(), 2u);
  for (const KvGroupPlan& group : share.kv_groups) EXPECT_EQ(group.num_kv_heads, 1);
  EXPECT_EQ(share.kv_groups[1].window_tokens, 16);
}

TEST(TensorRankTest, ARankHasItsOutputsOfEveryLinearPart) {
  const ModelPlan plan = PlanOf(SmallConfig());
  const ModelPlan share = ShareOf(plan, {.degree = 2, .rank = 1});
  const auto& whole = plan.kinds.front().parts;
  const auto& parts = share.kinds.front().parts;
  for (const LayerPart part : {LayerPart::kQkv, LayerPart::kMlpInput, LayerPart::kMlpOutput}) {
    EXPECT_EQ(parts[part].num_outputs, whole[part].num_outputs / 2);
    EXPECT_EQ(parts[part].num_inputs, whole[part].num_inputs);
    EXPECT_EQ(parts[part].pieces[0].num_outputs, whole[part].pieces[0].num_outputs / 2);
  }
  EXPECT_EQ(parts[LayerPart::kMlpNorm].num_outputs, 32);
  EXPECT_EQ(share.parts[ModelPart::kLmHead].num_outputs, 35);
  EXPECT_EQ(share.parts[ModelPart::kTokenEmbedding].num_outputs, 70);
}

}  // namespace
}  // namespace lockstep::worker
