#include <gtest/gtest.h>

#include <vector>

#include "kernels/embedding/gather_rows.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;

using GatherRowsCudaTest = testing::CudaTest;

TEST_F(GatherRowsCudaTest, CopiesTheRows) {
  constexpr size_t kTableRows = 50;
  for (const size_t size : {size_t{8}, size_t{80}, size_t{576}, size_t{4096}}) {
    const std::vector<BFloat16> table = RandomBFloat16s(kTableRows * size, 1);
    const std::vector<uint32_t> indices = {49, 0, 7, kNoRow, 7, 31};
    const DeviceArray<BFloat16> device_table(table), output(indices.size() * size);
    const DeviceArray<uint32_t> device_indices(indices);
    ASSERT_THAT(GatherRows(stream_, {.table = device_table.data(),
                                     .indices = device_indices.data(),
                                     .output = output.data(),
                                     .num_table_rows = kTableRows,
                                     .num_rows = static_cast<int64_t>(indices.size()),
                                     .size = static_cast<int64_t>(size)}),
                IsOk());
    const std::vector<BFloat16> rows = output.Read();
    output.ExpectGuardsIntact();
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::vector<BFloat16> zeros(size);
      const auto expected = indices[i] == kNoRow
                                ? std::span<const BFloat16>(zeros)
                                : std::span(table).subspan(indices[i] * size, size);
      EXPECT_TRUE(IsSameBits(std::span(rows).subspan(i * size, size), expected)) << i;
    }
  }
}

TEST_F(GatherRowsCudaTest, AnUnfitSizeIsAnError) {
  EXPECT_EQ(GatherRows(stream_, {.num_rows = 1, .size = 12}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::kernels
