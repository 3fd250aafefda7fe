#include "kernels/embedding/gather_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

TEST(GatherRowsTest, CopiesTheNamedRows) {
  constexpr size_t kSize = 10;
  const std::vector<BFloat16> table = RandomBFloat16s(50 * kSize, 1);
  std::vector<uint32_t> indices;
  for (uint32_t i = 0; i < 200; ++i) indices.push_back(i * 7 % 50);
  std::vector<BFloat16> expected;
  for (const uint32_t index : indices) {
    expected.insert(expected.end(), table.begin() + index * kSize,
                    table.begin() + (index + 1) * kSize);
  }
  ThreadPool threads(2);
  std::vector<BFloat16> output(expected.size());
  ASSERT_THAT(GatherRows({.threads = &threads}, {.table = table.data(),
                                                 .indices = indices.data(),
                                                 .output = output.data(),
                                                 .num_table_rows = 50,
                                                 .num_rows = 200,
                                                 .size = kSize}),
              IsOk());
  EXPECT_TRUE(IsSameBits(output, expected));
}

TEST(GatherRowsTest, PaddingIsZeros) {
  const std::vector<BFloat16> table = RandomBFloat16s(2 * 4, 1);
  const std::vector<uint32_t> indices = {1, kNoRow};
  std::vector<BFloat16> output = RandomBFloat16s(2 * 4, 2);
  ASSERT_THAT(GatherRows(Stream{}, {.table = table.data(),
                                    .indices = indices.data(),
                                    .output = output.data(),
                                    .num_table_rows = 2,
                                    .num_rows = 2,
                                    .size = 4}),
              IsOk());
  std::vector<BFloat16> expected(table.begin() + 4, table.end());
  expected.resize(2 * 4);
  EXPECT_TRUE(IsSameBits(output, expected));
}

TEST(GatherRowsDeathTest, AnIndexOutsideTheTableIsABrokenInvariant) {
  const std::vector<BFloat16> table(4);
  const uint32_t index = 2;
  std::vector<BFloat16> output(2);
  EXPECT_DEATH(static_cast<void>(GatherRows(Stream{}, {.table = table.data(),
                                                       .indices = &index,
                                                       .output = output.data(),
                                                       .num_table_rows = 2,
                                                       .num_rows = 1,
                                                       .size = 2})),
               "index 2 of a table of 2 rows");
}

}  // namespace
}  // namespace lockstep::kernels
