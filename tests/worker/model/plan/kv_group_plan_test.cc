#include "worker/model/plan/kv_group_plan.h"

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

TEST(KvGroupPlanTest, ABlockHasKeysAndValuesOfAllLayersOfTheGroup) {
  const KvGroupPlan group = {.layers = {1, 4, 5}, .num_kv_heads = 2, .head_dim = 24};
  // On the CPU the rows of values are padded to 32.
  EXPECT_EQ(group.CpuLayerBlockBytes(), 2u * 16 * (24 + 32) * 2);
  EXPECT_EQ(group.CpuBlockBytes(), 3u * 2 * 16 * (24 + 32) * 2);
  EXPECT_EQ(group.CudaLayerBlockBytes(), 2u * 16 * (24 + 24) * 2);
  EXPECT_EQ(group.CudaBlockBytes(), 3u * 2 * 16 * (24 + 24) * 2);
}

TEST(KvGroupPlanTest, ABlockOfCodesHasAByteForAnElementAndTwoScalesForAToken) {
  const KvGroupPlan group = {
      .layers = {1, 4, 5}, .num_kv_heads = 2, .head_dim = 32, .type = kernels::KvType::kFp8};
  EXPECT_EQ(group.CpuBlockBytes(), 3u * 2 * 16 * (32 + 32 + 2));
  EXPECT_EQ(group.CudaBlockBytes(), 3u * 2 * 16 * (32 + 32 + 2));
}

TEST(KvGroupPlanTest, APoolThatKeepsAllTokensHasTheBlocksThatWereAskedFor) {
  EXPECT_EQ(NumPoolBlocks({}, {.num_kv_blocks = 77, .max_slots = 4, .max_step_tokens = 2048}), 77);
}

TEST(KvGroupPlanTest, APoolOfWindowsHasRoomForEverySlotAndTwoSteps) {
  KvGroupPlan group;
  const KvPoolBounds bounds = {.num_kv_blocks = 100'000, .max_slots = 8, .max_step_tokens = 100};
  // The 32 tokens before the latest one lie in two full blocks. Steps have 7 blocks.
  group.window_tokens = 33;
  EXPECT_EQ(NumPoolBlocks(group, bounds), (8 * (2 + 2) + 2 * 7) * 5 / 4);
  group.window_tokens = 34;
  EXPECT_EQ(NumPoolBlocks(group, bounds), (8 * (3 + 2) + 2 * 7) * 5 / 4);
  // The token reads itself alone.
  group.window_tokens = 1;
  EXPECT_EQ(NumPoolBlocks(group, bounds), (8 * (0 + 2) + 2 * 7) * 5 / 4);
}

TEST(KvGroupPlanTest, APoolOfWindowsIsNoLargerThanThePoolOfAllTokens) {
  KvGroupPlan group;
  group.window_tokens = 4096;
  EXPECT_EQ(NumPoolBlocks(group, {.num_kv_blocks = 300, .max_slots = 8, .max_step_tokens = 100}),
            300);
}

// A scheduler needs this for one sequence alone.
TEST(KvGroupPlanTest, APoolOfWindowsHasRoomForOneWindowAndTwoBlocks) {
  KvGroupPlan group;
  group.window_tokens = 4096;
  EXPECT_EQ(NumPoolBlocks(group, {.num_kv_blocks = 20, .max_slots = 8, .max_step_tokens = 100}),
            256 + 2);
}

}  // namespace
}  // namespace lockstep::worker
