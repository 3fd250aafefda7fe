#include "kernels/formats/quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "kernels/core/bfloat16.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/module_files.h"

namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;

struct QuantizeCase {
  std::string_view name;
  QuantizeOptions options;
};

constexpr QuantizeOptions With(CodeKind kind, bool symmetric, int64_t columns, int64_t rows,
                               QuantizeArithmetic arithmetic) {
  return {.kind = kind,
          .symmetric = symmetric,
          .group_columns = columns,
          .group_rows = rows,
          .arithmetic = arithmetic};
}

constexpr auto kBf16 = QuantizeArithmetic::kBFloat16;
constexpr auto kF32 = QuantizeArithmetic::kFloat32;
constexpr QuantizeCase kQuantizeCases[] = {
    {"w4_g32_sym_bf16", With(CodeKind::kInt4, true, 32, 1, kBf16)},
    {"w4_g32_sym_f32", With(CodeKind::kInt4, true, 32, 1, kF32)},
    {"w4_g32_asym_bf16", With(CodeKind::kInt4, false, 32, 1, kBf16)},
    {"w4_g32_asym_f32", With(CodeKind::kInt4, false, 32, 1, kF32)},
    {"w8_channel_sym_bf16", With(CodeKind::kInt8, true, 0, 1, kBf16)},
    {"w8_channel_sym_f32", With(CodeKind::kInt8, true, 0, 1, kF32)},
    {"w8_channel_asym_bf16", With(CodeKind::kInt8, false, 0, 1, kBf16)},
    {"w8_channel_asym_f32", With(CodeKind::kInt8, false, 0, 1, kF32)},
    {"fp8_channel_bf16", With(CodeKind::kFp8E4M3, true, 0, 1, kBf16)},
    {"fp8_channel_f32", With(CodeKind::kFp8E4M3, true, 0, 1, kF32)},
    {"fp8_tensor_bf16", With(CodeKind::kFp8E4M3, true, 0, 0, kBf16)},
    {"fp8_tensor_f32", With(CodeKind::kFp8E4M3, true, 0, 0, kF32)},
    {"fp8_block_bf16", With(CodeKind::kFp8E4M3, true, 32, 16, kBf16)},
    {"fp8_block_f32", With(CodeKind::kFp8E4M3, true, 32, 16, kF32)},
    {"w4_g32_asym_f32_scales_bf16",
     {.kind = CodeKind::kInt4, .symmetric = false, .group_columns = 32, .scales_in_bf16 = true}},
};

std::vector<float> WeightsOf(const EncodedTensor& tensor) {
  if (tensor.dtype == SafetensorsDtype::kF32) return ElementsOf<float>(tensor.bytes);
  std::vector<float> values;
  for (const uint16_t bits : ElementsOf<uint16_t>(tensor.bytes)) {
    values.push_back(ToFloat(BFloat16{bits}));
  }
  return values;
}

class QuantizeTest : public ::testing::TestWithParam<QuantizeCase> {};

TEST_P(QuantizeTest, EqualsCompressedTensorsBitForBit) {
  ModuleFiles files = ModuleFiles::FromGolden(GoldenFile("quantize"), GetParam().name);
  const auto n = static_cast<int64_t>(files.At("weight").shape[0]);
  const auto k = static_cast<int64_t>(files.At("weight").shape[1]);
  const absl::StatusOr<QuantizedMatrix> matrix =
      QuantizeToNearest(WeightsOf(files.At("weight")), n, k, GetParam().options);
  ASSERT_THAT(matrix, IsOk());

  const int64_t rows = GetParam().options.group_rows > 0 ? GetParam().options.group_rows : n;
  const std::vector<float> scales = ElementsOf<float>(files.At("scales").bytes);
  std::vector<uint8_t> zeros;
  if (!GetParam().options.symmetric) zeros = ElementsOf<uint8_t>(files.At("zeros").bytes);
  const int64_t groups = matrix->num_groups();
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const auto own = static_cast<size_t>(row * groups + group);
      const auto expected = static_cast<size_t>(row / rows * groups + group);
      ASSERT_EQ(std::bit_cast<uint32_t>(matrix->scales[own]),
                std::bit_cast<uint32_t>(scales[expected]))
          << "scale of row " << row << ", group " << group << ": " << matrix->scales[own] << " and "
          << scales[expected];
      if (!zeros.empty()) {
        ASSERT_EQ(matrix->zeros[own], zeros[expected]) << "row " << row << ", group " << group;
      }
    }
  }
  const std::vector<uint8_t> codes = ElementsOf<uint8_t>(files.At("codes").bytes);
  ASSERT_EQ(codes.size(), matrix->codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(int{matrix->codes[i]}, int{codes[i]})
        << "row " << static_cast<int64_t>(i) / k << ", column " << static_cast<int64_t>(i) % k;
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizeTest, ::testing::ValuesIn(kQuantizeCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(QuantizeTest, RefusesNumbersThatAreNotFinite) {
  std::vector<float> values(64, 1.0f);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::infinity(), 0x1p127f}) {
    values[35] = bad;
    EXPECT_THAT(QuantizeToNearest(values, 2, 32, {.group_columns = 32}),
                HasError(absl::StatusCode::kInvalidArgument, HasSubstr("element [1, 3] is ")));
  }
}

TEST(QuantizeTest, RefusesGroupsThatDoNotDivideTheColumns) {
  const std::vector<float> values(48, 1.0f);
  EXPECT_THAT(
      QuantizeToNearest(values, 1, 48, {.group_columns = 32}),
      HasError(absl::StatusCode::kInvalidArgument, "48 columns do not divide into groups of 32"));
}

}  // namespace
}  // namespace lockstep::kernels
