#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/formats/strips/choose_strip_codec.h"
#include "kernels/formats/strips/fp4/fp4_weights.h"
#include "kernels/formats/strips/fp4/nvfp4_rows.h"
#include "kernels/formats/strips/strip_matrix.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/fp4_samples.h"
#include "tests/kernels/formats/quantized_samples.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::kMxfp4Shape;
using lockstep::testing::kNvfp4DividedShape;
using lockstep::testing::kNvfp4Shape;
using lockstep::testing::Mxfp4WithEveryScale;
using lockstep::testing::Nvfp4WithEveryScale;
using lockstep::testing::RowScales;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleShape;
using ::testing::HasSubstr;

// How a kernel may go wrong.
struct KernelFault {
  const char* name = "none";
  int lanes = 0;   // the codes of another lane
  int pairs = 0;   // the pairs of a word in another order
  int groups = 0;  // the scales of another group
  int rows = 0;    // the table's entry for another row; of NVFP4
  uint32_t scale_mask = ~0u;
};

// Does with packed weights what the lanes of a warp do, with the same functions.
class WarpOnCpu {
 public:
  WarpOnCpu(const PackedStrips& packed, const KernelFault& fault)
      : packed_(packed), fault_(fault), shape_(ShapeOfStripCodec(packed.matrix.codec)) {}

  // All values of a row of a strip, those beyond the matrix as well.
  std::vector<uint16_t> Row(int64_t row) const {
    const StripMatrix& matrix = packed_.matrix;
    std::vector<uint16_t> bits(static_cast<size_t>(matrix.num_blocks() * kStripBlockColumns));
    for (int64_t block = 0; block < matrix.num_blocks(); ++block) {
      const std::byte* const bytes =
          packed_.storage.data() +
          matrix.BlockIndex(row / kStripRows, block) * StripBlockBytes(matrix.codec);
      for (int step = 0; step < kStripBlockColumns / 16; ++step) {
        ConvertStep(bytes, row, step,
                    &bits[static_cast<size_t>(block * kStripBlockColumns + step * 16)]);
      }
    }
    return bits;
  }

 private:
  template <typename T>
  static T ElementAt(const std::byte* bytes, int64_t index) {
    T value;
    std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }

  void ConvertStep(const std::byte* block, int64_t row, int step, uint16_t* bits) const {
    const uint32_t scale = Scale(block, row, step) & fault_.scale_mask;
    for (int t = 0; t < 4; ++t) {
      const int lane = static_cast<int>(row % kStripRows) * 4 + (t + fault_.lanes) % 4;
      const auto word = ElementAt<uint32_t>(block, lane * 4 + step / 2);
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t values = Values(word, (step % 2 * 2 + pair) ^ fault_.pairs);
        const uint32_t weights = packed_.matrix.codec == StripCodec::kMxfp4
                                     ? Fp4TimesPower(values, scale)
                                     : Fp4TimesSum(values, scale);
        bits[8 * pair + 2 * t] = static_cast<uint16_t>(weights);
        bits[8 * pair + 2 * t + 1] = static_cast<uint16_t>(weights >> 16);
      }
    }
  }

  static uint32_t Values(uint32_t word, int pair) {
    switch (pair) {
      case 0:
        return Fp4Values<0>(word);
      case 1:
        return Fp4Values<1>(word);
      case 2:
        return Fp4Values<2>(word);
      default:
        return Fp4Values<3>(word);
    }
  }

  uint32_t Scale(const std::byte* block, int64_t row, int step) const {
    const std::byte* const scales = block + shape_.code_bytes();
    const int in_strip = static_cast<int>(row % kStripRows);
    if (packed_.matrix.codec == StripCodec::kMxfp4) {
      const auto bytes = ElementAt<uint32_t>(scales, in_strip);
      switch ((step / 2 + fault_.groups) % 4) {
        case 0:
          return Mxfp4Scale<0>(bytes);
        case 1:
          return Mxfp4Scale<1>(bytes);
        case 2:
          return Mxfp4Scale<2>(bytes);
        default:
          return Mxfp4Scale<3>(bytes);
      }
    }
    const int group = (step + fault_.groups) % 8;
    const uint32_t bytes = ElementAt<uint16_t>(scales, in_strip * 4 + group % 4);
    const Nvfp4Row of_row = TableRow((row + fault_.rows) % packed_.matrix.num_rows());
    return group < 4 ? Nvfp4Scale<0>(of_row, bytes) : Nvfp4Scale<1>(of_row, bytes);
  }

  Nvfp4Row TableRow(int64_t row) const {
    const std::byte* const table = packed_.storage.data() + packed_.matrix.blocks_bytes();
    const std::byte* const upper_bytes = table + 16 * packed_.matrix.num_rows();
    return {
        .hi_bytes = {ElementAt<uint32_t>(table, 4 * row), ElementAt<uint32_t>(table, 4 * row + 1)},
        .lo_bytes = {ElementAt<uint32_t>(table, 4 * row + 2),
                     ElementAt<uint32_t>(table, 4 * row + 3)},
        .upper_bytes = ElementAt<uint32_t>(upper_bytes, row)};
  }

  const PackedStrips& packed_;
  KernelFault fault_;
  StripCodecShape shape_;
};

// The first value that is not DequantizeRow's, or beyond the matrix not 0. -1: there is none.
int64_t FirstWrongValue(const QuantizedMatrix& matrix, const PackedStrips& packed,
                        const KernelFault& fault = {}) {
  const WarpOnCpu warp(packed, fault);
  for (int64_t row = 0; row < packed.matrix.num_rows(); ++row) {
    const std::vector<uint16_t> actual = warp.Row(row);
    std::vector<BFloat16> values(actual.size(), BFloat16{0});
    if (row < matrix.n) DequantizeRow(matrix, row, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool exists = row < matrix.n && static_cast<int64_t>(i) < matrix.k;
      // The input is 0 beyond the matrix. The sign of a zero is nothing there.
      const uint32_t mask = exists ? 0xFFFF : 0x7FFF;
      if ((values[i].bits & mask) != (actual[i] & mask)) {
        return row * static_cast<int64_t>(values.size()) + static_cast<int64_t>(i);
      }
    }
  }
  return -1;
}

TEST(Fp4StripsTest, EveryCodeUnderEveryScaleOfMxfp4HasTheBitsOfTheFormat) {
  const QuantizedMatrix matrix = Mxfp4WithEveryScale();
  const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
  ASSERT_THAT(packed, IsOk());
  ASSERT_EQ(packed->matrix.codec, StripCodec::kMxfp4);
  EXPECT_EQ(FirstWrongValue(matrix, *packed), -1);
}

TEST(Fp4StripsTest, EveryCodeUnderEveryScaleOfNvfp4HasTheBitsOfTheFormat) {
  const std::vector<float> row_scales = RowScales(800);
  for (const bool divides : {false, true}) {
    const QuantizedMatrix matrix = Nvfp4WithEveryScale(row_scales, divides);
    const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
    ASSERT_THAT(packed, IsOk());
    ASSERT_EQ(packed->matrix.codec, StripCodec::kNvfp4);
    EXPECT_EQ(FirstWrongValue(matrix, *packed), -1) << (divides ? "divided" : "multiplied");
  }
}

TEST(Fp4StripsTest, TwoNumbersStandForEveryScale) {
  for (uint32_t fraction = 0; fraction < 1u << 23; ++fraction) {
    const float scale = std::bit_cast<float>(127u << 23 | fraction);
    const auto [hi, lo] = SplitNvfp4Scale(scale);
    ASSERT_EQ(RoundToBFloat16(hi), hi);
    for (const float value : {1.0f, 1.5f}) {
      const float small = value * lo;
      ASSERT_EQ(RoundToBFloat16(small), small);
      ASSERT_EQ(RoundToBFloat16(value * hi + small), RoundToBFloat16(value * scale)) << scale;
    }
  }
}

// PackNvfp4Row ends the program where that is not so.
TEST(Fp4StripsTest, UpperBytesOfARowAreEqual) {
  for (uint32_t fraction = 0; fraction < 1u << 23; fraction += 31) {
    const float of_row = std::bit_cast<float>(127u << 23 | fraction);
    float multiplied[8], divided[8];
    for (int i = 0; i < 8; ++i) {
      const float significand = 1.0f + 0.125f * static_cast<float>(i);
      multiplied[i] = significand * of_row;
      divided[i] = significand / of_row;
    }
    ASSERT_LE(PackNvfp4Row(multiplied).exponent_offset, 1);
    ASSERT_LE(PackNvfp4Row(divided).exponent_offset, 1);
  }
}

constexpr KernelFault kKernelFaults[] = {
    {.name = "lanes in another order", .lanes = 1},
    {.name = "pairs in another order", .pairs = 1},
    {.name = "steps in another order", .pairs = 2},
    {.name = "scales of the next group", .groups = 1},
    {.name = "scales of the other half", .groups = 4},
    {.name = "table of the next row", .rows = 1},
    {.name = "without lo", .scale_mask = 0x0000FFFF},
};

TEST(Fp4StripsTest, FaultsAreSeen) {
  for (const SampleShape& shape : {kMxfp4Shape, kNvfp4Shape, kNvfp4DividedShape}) {
    // The last two have rows and columns that do not fill a strip, a block and a group.
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{32, 512}, {45, 160}, {3, 2056}}) {
      const QuantizedMatrix matrix = SampleMatrix(shape, n, k, 2);
      const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
      ASSERT_THAT(packed, IsOk());
      EXPECT_EQ(FirstWrongValue(matrix, *packed), -1);
      for (const KernelFault& fault : kKernelFaults) {
        const bool is_nvfp4 = packed->matrix.codec == StripCodec::kNvfp4;
        const bool has_part = is_nvfp4 || (fault.rows == 0 && fault.groups != 4);
        EXPECT_EQ(FirstWrongValue(matrix, *packed, fault) >= 0, has_part) << fault.name;
      }
    }
  }
}

TEST(Fp4StripsTest, ScalesThatTheKernelsDoNotTakeAreRefused) {
  const auto refusal = [](const QuantizedMatrix& matrix) {
    return ChooseStripCodec(matrix).status().ToString();
  };
  QuantizedMatrix matrix = SampleMatrix(kMxfp4Shape, 4, 64, 4);
  for (const float scale : {4.0f, 0.75f, 0.0f, -1.0f, 0x1p-128f}) {
    matrix.scales[3] = scale;
    EXPECT_THAT(refusal(matrix), HasSubstr("of group 1 of row 1 is not a power of two from"));
  }
  matrix = SampleMatrix(kNvfp4DividedShape, 4, 64, 4);
  matrix.block_scales = {1000, 1000, 1000, 1000};
  EXPECT_THAT(ChooseStripCodec(matrix), IsOk());
  matrix.scales[6] = 17;  // more bits than E4M3 has
  EXPECT_THAT(refusal(matrix), HasSubstr("the scale 17 of group 2 of row 1 has no exact value"));
  matrix.scales[6] = 448;
  for (const float of_row : {100.0f, 0x1p120f}) {
    matrix.block_scales[1] = of_row;
    EXPECT_THAT(refusal(matrix), HasSubstr("of both levels"));
  }
  for (const float of_row : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    matrix.block_scales[1] = of_row;
    EXPECT_THAT(refusal(matrix), HasSubstr("of row 1 is not a positive number"));
  }
  matrix = SampleMatrix(kNvfp4DividedShape, 4, 128, 4);
  matrix.block_columns = 64;
  matrix.block_scales.resize(8, 1000);
  EXPECT_THAT(refusal(matrix), HasSubstr("blocks of 64 columns; the kernels take rows"));
}

// Scales of both signs and of zero are in the codes.
TEST(Fp4StripsTest, SignsOfZeroAreKept) {
  QuantizedMatrix matrix = SampleMatrix(kNvfp4Shape, 1, 64, 4);
  for (int i = 0; i < 64; ++i) matrix.codes[static_cast<size_t>(i)] = static_cast<uint8_t>(i % 16);
  matrix.scales = {0.0f, -0.0f, 2.0f, -2.0f};
  const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
  ASSERT_THAT(packed, IsOk());
  EXPECT_EQ(FirstWrongValue(matrix, *packed), -1);
}

}  // namespace
}  // namespace lockstep::kernels
