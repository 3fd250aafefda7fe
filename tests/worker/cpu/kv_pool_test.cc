#include "worker/cpu/kv_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/common/status_matchers.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

KvGroupInfo Blocks(uint32_t num_blocks) { return {.num_blocks = num_blocks, .dtype = "bf16"}; }

TEST(KvPoolTest, ACacheBeyondTheMemoryIsRefusedWithTheArithmetic) {
  // 2 layers x 4 heads x (64 + 64) x 2 bytes are 2,048 bytes a token.
  const std::vector<KvGroupPlan> groups = {{.layers = {0, 1}, .num_kv_heads = 4, .head_dim = 64}};
  const std::vector<KvGroupInfo> infos = {Blocks(1 << 16)};
  EXPECT_THAT(CheckKvCacheFits(groups, infos, uint64_t{1} << 31), IsOk());
  EXPECT_THAT(CheckKvCacheFits(groups, infos, uint64_t{1} << 30),
              HasError(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 tokens of 2048 bytes are 2.0 GiB, and 1.0 GiB of memory "
                                 "are available; at most 524288 tokens")));
}

TEST(KvPoolTest, CodesTakeHalfTheMemoryAndTheirScales) {
  const std::vector<KvGroupPlan> groups = {
      {.layers = {0, 1}, .num_kv_heads = 4, .head_dim = 64, .type = kernels::KvType::kFp8}};
  // 2 layers x 4 heads x (64 + 64 + 2) bytes are 1,040 bytes a token.
  EXPECT_THAT(CheckKvCacheFits(groups, std::vector{Blocks(1 << 16)}, uint64_t{1} << 30),
              HasError(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 tokens of 1040 bytes are 1.0 GiB, and 1.0 GiB of memory "
                                 "are available; at most 1032432 tokens")));
}

TEST(KvPoolTest, TheCacheIsTheSumOfAllGroups) {
  const std::vector<KvGroupPlan> groups = {
      {.layers = {0, 1}, .num_kv_heads = 4, .head_dim = 64},
      {.window_tokens = 512, .layers = {2, 3}, .num_kv_heads = 4, .head_dim = 64}};
  const std::vector<KvGroupInfo> infos = {Blocks(1 << 16), Blocks(1 << 14)};
  constexpr uint64_t kBytes = (uint64_t{1} << 31) + (uint64_t{1} << 29);
  EXPECT_THAT(CheckKvCacheFits(groups, infos, kBytes), IsOk());
  EXPECT_THAT(CheckKvCacheFits(groups, infos, kBytes - 1), ::testing::Not(IsOk()));
  // A token takes 2,048 bytes, and its part of the windows.
  EXPECT_THAT(CheckKvCacheFits(groups, infos, uint64_t{1} << 30),
              HasError(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 tokens of 2560 bytes are 2.5 GiB, and 1.0 GiB of memory "
                                 "are available; at most 419424 tokens")));
}

TEST(KvPoolTest, LayersAreDisjointAndCoverThePools) {
  const std::vector<KvGroupPlan> groups = {{.layers = {1, 3, 4}, .num_kv_heads = 2, .head_dim = 20},
                                           {.window_tokens = 32,
                                            .layers = {0, 2},
                                            .num_kv_heads = 1,
                                            .head_dim = 32,
                                            .type = kernels::KvType::kFp8}};
  const auto pool = CpuKvPool::Create(groups, std::vector<KvGroupInfo>{Blocks(5), Blocks(3)});
  ASSERT_THAT(pool, IsOk());
  const int64_t first_layer = 5 * 2 * 16 * (20 + 32) * 2;  // value rows are padded to 32
  const int64_t second_layer = 3 * 1 * 16 * (32 + 32 + 2);
  EXPECT_EQ(pool->bytes().size(), static_cast<size_t>(3 * first_layer + 2 * second_layer));
  const std::byte* expected = pool->bytes().data();
  for (int64_t index = 0; index < 3; ++index, expected += first_layer) {
    const kernels::PagedKv layer = pool->Layer(0, index);
    EXPECT_EQ(layer.data, expected);
    EXPECT_EQ(layer.num_blocks, 5);
    EXPECT_EQ(layer.num_kv_heads, 2);
    EXPECT_EQ(layer.head_dim, 20);
  }
  for (int64_t index = 0; index < 2; ++index, expected += second_layer) {
    const kernels::PagedKv layer = pool->Layer(1, index);
    EXPECT_EQ(layer.data, expected);
    EXPECT_EQ(layer.num_blocks, 3);
    EXPECT_EQ(layer.num_kv_heads, 1);
    EXPECT_EQ(layer.head_dim, 32);
  }
}

}  // namespace
}  // namespace lockstep::worker
