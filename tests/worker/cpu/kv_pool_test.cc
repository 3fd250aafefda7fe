#include "worker/cpu/kv_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/common/status_matchers.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

TEST(KvPoolTest, ACacheBeyondTheMemoryIsRefusedWithTheArithmetic) {
  // 2 layers x 4 heads x (64 + 64) x 2 bytes are 2,048 bytes a token.
  const KvGroupPlan group = {.layers = {0, 1}, .num_kv_heads = 4, .head_dim = 64};
  constexpr int64_t kNumBlocks = 1 << 16;
  EXPECT_THAT(CheckKvCacheFits(group, kNumBlocks, uint64_t{1} << 31), IsOk());
  EXPECT_THAT(CheckKvCacheFits(group, kNumBlocks, uint64_t{1} << 30),
              HasError(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048576 tokens of 2048 bytes are 2.0 GiB, and 1.0 GiB of memory "
                                 "are available; at most 524288 tokens")));
}

TEST(KvPoolTest, LayersAreDisjointAndCoverThePool) {
  const KvGroupPlan group = {.layers = {0, 1, 2}, .num_kv_heads = 2, .head_dim = 20};
  const auto pool = CpuKvPool::Create(group, 5);
  ASSERT_THAT(pool, IsOk());
  const int64_t layer_elements = 5 * 2 * 16 * (20 + 32);  // value rows are padded to 32
  EXPECT_EQ(pool->elements().size(), static_cast<size_t>(3 * layer_elements));
  for (int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(pool->Layer(layer).data, pool->elements().data() + layer * layer_elements);
    EXPECT_EQ(pool->Layer(layer).num_blocks, 5);
    EXPECT_EQ(pool->Layer(layer).num_kv_heads, 2);
    EXPECT_EQ(pool->Layer(layer).head_dim, 20);
  }
}

}  // namespace
}  // namespace lockstep::worker
