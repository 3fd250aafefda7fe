#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/fp8_activations/fp8_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class QuantizeActivationsCudaTest : public Fp8CudaTest {};

// bf16 values in which scales and codes meet their borders: zeros, subnormal and largest numbers,
// infinities, NaN, and codes exactly between two others.
std::vector<BFloat16> BorderRows(int64_t num_rows, int64_t k) {
  std::vector<BFloat16> values =
      RandomBFloat16s(static_cast<size_t>(num_rows * k), 31, Distribution::kOutliers);
  const auto fill = [&](int64_t row, float value) {
    for (int64_t i = 0; i < std::min<int64_t>(k, 128); ++i) {
      values[static_cast<size_t>(row * k + i)] = ToBFloat16(value);
    }
  };
  const auto set = [&](int64_t row, int64_t column, float value) {
    values[static_cast<size_t>(row * k + column)] = ToBFloat16(value);
  };
  fill(0, 0.0f);
  fill(1, -0.0f);
  fill(2, 0x1p-133f);  // the smallest bf16: the scale underflows
  fill(3, 0x1p-126f);  // the scale is subnormal
  set(3, 5, 0x1p-124f);
  set(4, 3, 0x1.FEp127f);  // the largest bf16
  set(5, 7, std::numeric_limits<float>::infinity());
  set(6, 9, std::numeric_limits<float>::quiet_NaN());
  set(6, 10, -std::numeric_limits<float>::quiet_NaN());
  // The scale is 1, so codes are the values: ties, and the subnormal codes.
  fill(7, 448.0f);
  for (int64_t i = 1; i < 16; ++i) {
    set(7, i, (16.0f + static_cast<float>(i)) * (i % 2 == 0 ? 1.0f : -1.0f));
  }
  fill(8, 448.0f);
  for (int64_t i = 1; i < 16; ++i) set(8, i, static_cast<float>(i) * 0x1p-10f);
  return values;
}

TEST_F(QuantizeActivationsCudaTest, HasTheBitsOfTheReference) {
  for (const auto& [num_rows, k] : {std::pair<int64_t, int64_t>{9, 16},
                                    {9, 128},
                                    {10, 576},
                                    {11, 144},
                                    {12, 1536},
                                    {129, 4096},
                                    {300, 12288}}) {
    SCOPED_TRACE(::testing::Message() << num_rows << " x " << k);
    const std::vector<BFloat16> values = BorderRows(num_rows, k);
    const TestRows rows(values, k);
    const TestCodes codes = Quantized(rows, 0, num_rows, k);
    std::vector<uint8_t> expected_codes(static_cast<size_t>(num_rows * k));
    // Padding is not written, so it keeps the bytes of DeviceArray.
    std::vector<float> expected_scales(codes.scales.size(),
                                       std::bit_cast<float>(uint32_t{0xFFFFFFFF}));
    QuantizeActivationsReference({.input = values.data(),
                                  .input_stride = k,
                                  .num_rows = num_rows,
                                  .k = k,
                                  .codes = expected_codes.data(),
                                  .scales = expected_scales.data()});
    EXPECT_TRUE(IsSameBits(codes.scales.Read(), expected_scales));
    const std::vector<uint8_t> actual = codes.codes.Read();
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(int{actual[i]}, int{expected_codes[i]})
          << "row " << i / static_cast<size_t>(k) << ", column " << i % static_cast<size_t>(k)
          << ": " << ToFloat(values[i]);
    }
    codes.codes.ExpectGuardsIntact();
    codes.scales.ExpectGuardsIntact();
  }
}

}  // namespace
}  // namespace lockstep::kernels
