#include "kernels/quant/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/quant/float16.h"
#include "tests/common/status_matchers.h"

namespace lockstep::kernels {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr GgmlType kSupported[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBF16,
                                   GgmlType::kQ8_0, GgmlType::kQ4_0, GgmlType::kQ4_1,
                                   GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ4_K,
                                   GgmlType::kQ5_K, GgmlType::kQ6_K};

class DequantizeTest : public ::testing::TestWithParam<GgmlType> {};

TEST_P(DequantizeTest, EqualsTheReferenceBitForBit) {
  const absl::StatusOr<SafetensorsFile> golden =
      SafetensorsFile::Open("tests/golden/quant/quant.safetensors");
  ASSERT_THAT(golden, IsOk());
  const std::string name = GgmlTypeName(GetParam());
  const SafetensorsTensor* blocks = golden->Find(name + ".blocks");
  const SafetensorsTensor* expected = golden->Find(name + ".values");
  ASSERT_NE(blocks, nullptr);
  ASSERT_NE(expected, nullptr);
  std::vector<float> values(expected->data.size() / sizeof(float), -1.0f);
  ASSERT_THAT(Dequantize(GetParam(), blocks->data, values), IsOk());
  ASSERT_GE(values.size(), 32u);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t expected_bits;
    std::memcpy(&expected_bits, expected->data.data() + i * sizeof(float), sizeof(float));
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), expected_bits) << "value " << i;
  }
}

TEST_P(DequantizeTest, TakesBlocksAtAnyAddress) {
  const GgmlBlockSize block = *GgmlTypeBlockSize(GetParam());
  std::vector<std::byte> bytes(3 * block.num_bytes + 1);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 120);
  std::vector<float> aligned(3 * block.num_elements);
  ASSERT_THAT(Dequantize(GetParam(), std::span(bytes).first(bytes.size() - 1), aligned), IsOk());
  std::memmove(bytes.data() + 1, bytes.data(), bytes.size() - 1);
  std::vector<float> shifted(aligned.size());
  ASSERT_THAT(Dequantize(GetParam(), std::span(bytes).subspan(1), shifted), IsOk());
  EXPECT_EQ(shifted, aligned);
}

TEST_P(DequantizeTest, RefusesSizesThatDoNotFit) {
  const GgmlBlockSize block = *GgmlTypeBlockSize(GetParam());
  const std::vector<std::byte> bytes(2 * block.num_bytes);
  std::vector<float> values(2 * block.num_elements);
  EXPECT_THAT(Dequantize(GetParam(), bytes, values), IsOk());
  EXPECT_THAT(Dequantize(GetParam(), {}, {}), IsOk());
  const auto refused =
      HasError(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(GgmlTypeName(GetParam())), HasSubstr("do not hold")));
  EXPECT_THAT(Dequantize(GetParam(), std::span(bytes).first(bytes.size() - 1), values), refused);
  EXPECT_THAT(Dequantize(GetParam(), bytes, std::span(values).first(values.size() - 1)), refused);
  EXPECT_THAT(Dequantize(GetParam(), std::span(bytes).first(block.num_bytes), values), refused);
}

TEST_P(DequantizeTest, IsListedAsSupported) { EXPECT_TRUE(CanDequantize(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Types, DequantizeTest, ::testing::ValuesIn(kSupported),
                         [](const auto& info) { return GgmlTypeName(info.param); });

TEST(DequantizeTest, NamesATypeThatItCannotDo) {
  for (const auto& [type, name] :
       {std::pair(GgmlType::kQ2_K, "Q2_K"), std::pair(static_cast<GgmlType>(99), "type 99")}) {
    EXPECT_FALSE(CanDequantize(type));
    EXPECT_THAT(Dequantize(type, {}, {}),
                HasError(absl::StatusCode::kUnimplemented,
                         AllOf(HasSubstr(name), HasSubstr("expected F32"))));
  }
}

TEST(Float16Test, EveryFiniteValueIsExact) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const int exponent = static_cast<int>(half >> 10 & 0x1f);
    if (exponent == 31) continue;
    const double fraction = (half & 0x3ff) / 1024.0;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
    const float expected = static_cast<float>(half & 0x8000 ? -magnitude : magnitude);
    const float actual = Float16ToFloat(static_cast<uint16_t>(half));
    ASSERT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(expected)) << half;
  }
}

TEST(Float16Test, InfinitiesAndNansStayWhatTheyAre) {
  EXPECT_EQ(Float16ToFloat(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(Float16ToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::bit_cast<uint32_t>(Float16ToFloat(0x7e01)), 0x7fc02000u);
  EXPECT_TRUE(std::isnan(Float16ToFloat(0xfc01)));
}

}  // namespace
}  // namespace lockstep::kernels
