#include "worker/model/layout/tensor_rank.h"

#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_spec.h"

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
  const ModelSpec spec = SmallSpec();  // 4 heads, 2 KV heads, 32 hidden, 48 intermediate, 70 tokens
  EXPECT_THAT(CheckDegree(spec, 1), IsOk());
  EXPECT_THAT(CheckDegree(spec, 2), IsOk());
  EXPECT_THAT(CheckDegree(spec, 3),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("3 ranks cannot share the model evenly: heads (4), KV heads (2), "
                                 "hidden size (32), vocabulary (70) cannot be divided by 3")));
  EXPECT_THAT(CheckDegree(spec, 4),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr(": KV heads (2), vocabulary (70) cannot be divided by 4")));
  EXPECT_THAT(CheckDegree(spec, 0), HasError(absl::StatusCode::kInvalidArgument, HasSubstr("0")));
}

TEST(TensorRankTest, ARankHasItsHeadsAndItsPartOfTheMlp) {
  const ModelSpec spec = SmallSpec();
  const ModelSpec share = ShareOf(spec, {.degree = 2, .rank = 1});
  EXPECT_EQ(share.num_heads, 2);
  EXPECT_EQ(share.num_kv_heads, 1);
  EXPECT_EQ(share.intermediate_size, 24);
  EXPECT_EQ(share.qkv_size(), spec.qkv_size() / 2);
  EXPECT_EQ(share.hidden_size, spec.hidden_size);
  EXPECT_EQ(share.vocab_size, spec.vocab_size);
  EXPECT_EQ(share.head_dim, spec.head_dim);
}

}  // namespace
}  // namespace lockstep::worker
