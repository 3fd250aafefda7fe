#include "kernels/formats/strips/strip_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/formats/strips/choose_strip_codec.h"
#include "kernels/quant/float16.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/quantized_samples.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::kSampleShapes;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleShape;
using ::testing::HasSubstr;

template <typename T>
T ElementAt(const std::byte* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

const std::byte* BlockOf(const PackedStrips& packed, int64_t strip, int64_t column) {
  // [bands][blocks of a strip][4 strips]
  const int64_t block = column / kStripBlockColumns;
  const int64_t index = (strip / 4 * packed.matrix.num_blocks() + block) * 4 + strip % 4;
  return packed.storage.data() + index * StripBlockBytes(packed.matrix.codec);
}

// The code that a lane reads for a row and a column of a strip, by the words of strip_codec.h.
uint8_t CodeAt(const PackedStrips& packed, int64_t strip, int row, int64_t column, int bits) {
  const std::byte* const bytes = BlockOf(packed, strip, column);
  const int in_block = static_cast<int>(column % kStripBlockColumns);
  const int step = in_block / 16;
  const int lane = 4 * row + in_block % 8 / 2;
  const int pair = in_block % 16 >= 8 ? 1 : 0;
  const int second = in_block % 2;
  if (bits == 8) {
    const auto word = ElementAt<uint32_t>(bytes, (step / 4 * 32 + lane) * 4 + step % 4);
    return static_cast<uint8_t>(word >> (16 * pair + 8 * second));
  }
  const auto word = ElementAt<uint32_t>(bytes, lane * 4 + step / 2);
  const uint32_t low = word >> (4 * (step % 2 * 2 + pair) + 16 * second) & 0xF;
  const std::byte* const high_bytes = bytes + 512;
  uint32_t high = 0;
  if (bits == 5) {
    const int bit = 8 * (step / 4) + step % 4 + 4 * pair + 16 * second;
    high = ElementAt<uint32_t>(high_bytes, lane) >> bit & 1;
  } else if (bits == 6) {
    const int bit = 8 * (step % 4 / 2) + 2 * (step % 2) + 4 * pair + 16 * second;
    high = ElementAt<uint32_t>(high_bytes, 2 * lane + step / 4) >> bit & 3;
  }
  return static_cast<uint8_t>(low | high << 4);
}

TEST(StripMatrixTest, EveryCodeLiesWhereALaneReadsIt) {
  for (const SampleShape& shape : kSampleShapes) {
    const int bits = CodeBits(shape.kind);
    for (const int64_t k : {160, 2048}) {
      const int64_t n = 44;
      const QuantizedMatrix matrix = SampleMatrix(shape, n, k, 1);
      const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
      ASSERT_THAT(packed, IsOk());
      // Their bits lie apart, and scales change them. fp4_strips_test reads them.
      if (ShapeOfStripCodec(packed->matrix.codec).is_fp4()) continue;
      SCOPED_TRACE(StripCodecName(packed->matrix.codec));
      EXPECT_EQ(packed->matrix.num_strips(), 8);
      EXPECT_EQ(packed->matrix.num_blocks(), k == 160 ? 2 : 16);
      for (int64_t row = 0; row < n; ++row) {
        for (int64_t column = 0; column < k; ++column) {
          ASSERT_EQ(CodeAt(*packed, row / 8, static_cast<int>(row % 8), column, bits),
                    matrix.codes[static_cast<size_t>(row * k + column)])
              << "row " << row << ", column " << column;
        }
      }
    }
  }
}

// How a reader of GGUF's codecs may go wrong.
struct ReaderFault {
  const char* name = "none";
  int columns = 0;     // the codes of other columns, as with the halves of bytes in another order
  int high_bits = 0;   // a shift of the bits above the low four
  int groups = 0;      // the scales of another group
  int minima = 0;      // the minimum of another group
  float minus = 1.0f;  // the sign of minima
};

float HalfAt(const std::byte* bytes, int64_t index) {
  return Float16ToFloat(ElementAt<uint16_t>(bytes, index));
}

struct GroupScale {
  float scale;
  float minimum;
};

// The scale and the minimum of a group of a block's row, by the words of strip_codec.h.
GroupScale GroupScaleAt(const std::byte* scales, const StripCodecShape& shape, int row, int group,
                        int minimum_group) {
  const int parts = shape.has_minima ? 2 : 1;
  const int index = (row * shape.num_groups() + group) * parts;
  const int minimum_index = (row * shape.num_groups() + minimum_group) * parts + 1;
  if (!shape.has_two_levels()) {
    return {HalfAt(scales, index), shape.has_minima ? HalfAt(scales, minimum_index) : 0.0f};
  }
  const std::byte* const level = scales + kStripRows * shape.num_groups() * parts;
  const float small = static_cast<float>(ElementAt<uint8_t>(scales, index));
  if (!shape.has_minima) return {HalfAt(level, row) * (small - 128.0f), 0.0f};
  return {
      HalfAt(level, 2 * row) * small,
      HalfAt(level, 2 * row + 1) * static_cast<float>(ElementAt<uint8_t>(scales, minimum_index))};
}

// All values of a strip's row, those beyond the matrix as well.
std::vector<uint16_t> ReadGgufRow(const PackedStrips& packed, CodeKind kind, int64_t row,
                                  const ReaderFault& fault) {
  const StripCodecShape shape = ShapeOfStripCodec(packed.matrix.codec);
  const int in_strip = static_cast<int>(row % kStripRows);
  const int groups = shape.num_groups();
  std::vector<uint16_t> bits;
  for (int64_t column = 0; column < packed.matrix.num_blocks() * kStripBlockColumns; ++column) {
    const std::byte* const block = BlockOf(packed, row / kStripRows, column);
    const int group = static_cast<int>(column % kStripBlockColumns) / shape.group_columns;
    const auto [scale, minimum] =
        GroupScaleAt(block + shape.code_bytes(), shape, in_strip, (group + fault.groups) % groups,
                     (group + fault.minima) % groups);
    int code = CodeAt(packed, row / kStripRows, in_strip, column ^ fault.columns, shape.code_bits);
    code = (code & 0xF) | (code >> 4 << (4 + fault.high_bits));
    const float value = static_cast<float>(code - MiddleCode(kind)) * scale - fault.minus * minimum;
    bits.push_back(ToBFloat16(value + 0.0f).bits);
  }
  return bits;
}

// Whether a reader finds the values of the matrix, and zeros beyond it.
bool FindsEveryValue(const QuantizedMatrix& matrix, const PackedStrips& packed,
                     const ReaderFault& fault) {
  for (int64_t row = 0; row < packed.matrix.num_strips() * kStripRows; ++row) {
    const std::vector<uint16_t> actual = ReadGgufRow(packed, matrix.kind, row, fault);
    std::vector<BFloat16> values(actual.size(), BFloat16{0});
    if (row < matrix.n) DequantizeRow(matrix, row, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].bits != actual[i]) return false;
    }
  }
  return true;
}

constexpr ReaderFault kReaderFaults[] = {
    {.name = "neighbouring columns", .columns = 1},
    {.name = "pairs in another order", .columns = 8},
    {.name = "high bits shifted", .high_bits = 1},
    {.name = "scales of the next group", .groups = 1},
    {.name = "minima of the next group", .minima = 1},
    {.name = "sign of the minimum", .minus = -1.0f},
};

TEST(StripMatrixTest, ScalesOfGgufLieWhereALaneReadsThem) {
  for (const SampleShape& shape : kSampleShapes) {
    // The last has rows and columns that do not fill a strip and a block.
    for (const auto& [n, k] : {std::array<int64_t, 2>{32, 512}, {45, 160}, {3, 2048}}) {
      const QuantizedMatrix matrix = SampleMatrix(shape, n, k, 2);
      const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
      ASSERT_THAT(packed, IsOk());
      const StripCodecShape codec = ShapeOfStripCodec(packed->matrix.codec);
      if (!codec.is_gguf) continue;
      SCOPED_TRACE(StripCodecName(packed->matrix.codec));
      EXPECT_TRUE(FindsEveryValue(matrix, *packed, {}));
      for (const ReaderFault& fault : kReaderFaults) {
        const bool has_part = (codec.has_minima || (fault.minima == 0 && fault.minus > 0)) &&
                              (codec.code_bits > 4 || fault.high_bits == 0);
        EXPECT_EQ(FindsEveryValue(matrix, *packed, fault), !has_part) << fault.name;
      }
    }
  }
}

// [groups][8 rows] scales in bf16, then zero points: of 8 bits as they are, of 4 bits plus 128 in
// bf16.
TEST(StripMatrixTest, ZeroPointsLieBehindTheScales) {
  for (const CodeKind kind : {CodeKind::kInt4, CodeKind::kInt8}) {
    const QuantizedMatrix matrix = SampleMatrix({kind, 32, true}, 40, 256, 5);
    const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
    ASSERT_THAT(packed, IsOk());
    const int code_bytes = ShapeOfStripCodec(packed->matrix.codec).code_bytes();
    for (int64_t row = 0; row < 40; ++row) {
      for (int64_t group = 0; group < 8; ++group) {
        const std::byte* const block = BlockOf(*packed, row / 8, group * 32);
        const int64_t place = group % 4 * 8 + row % 8;
        const auto index = static_cast<size_t>(row * 8 + group);
        const uint16_t scale = ElementAt<uint16_t>(block + code_bytes, place);
        const uint16_t zero = ElementAt<uint16_t>(block + code_bytes + 64, place);
        EXPECT_EQ(scale, ToBFloat16(matrix.scales[index]).bits);
        const int expected = matrix.zeros[index];
        EXPECT_EQ(zero, kind == CodeKind::kInt8
                            ? expected
                            : int{ToBFloat16(128.0f + static_cast<float>(expected)).bits});
      }
    }
  }
}

TEST(StripMatrixTest, StagesAreWholeWhereThatCostsLittle) {
  EXPECT_EQ(NumStripBlocks(128), 1);
  EXPECT_EQ(NumStripBlocks(129), 2);
  EXPECT_EQ(NumStripBlocks(576), 5);
  EXPECT_EQ(NumStripBlocks(4096), 32);
  EXPECT_EQ(NumStripBlocks(4864), 40);
  EXPECT_EQ(NumStripBlocks(11008), 88);
}

TEST(StripMatrixTest, PackedBytesAreThoseOfTheFormat) {
  // Of 8 x 128 weights: codes, and what their groups need.
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt4Group128), 512 + 16);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt4Group128Zeros), 512 + 32);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt4Group32), 512 + 4 * 16);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt4Group32Zeros), 512 + 4 * 32);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt8Group128), 1024 + 16);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt8Group32), 1024 + 4 * 16);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt8Group128Zeros), 1024 + 32);
  EXPECT_EQ(StripBlockBytes(StripCodec::kInt8Group32Zeros), 1024 + 4 * 32);
  EXPECT_EQ(StripBlockBytes(StripCodec::kFp8Group128), 1024 + 32);
  // GGUF has 4.5, 5, 5.5, 6, 4.5, 5.5 and 6.5625 bits for a weight. The fp16 of a block of 256
  // columns are stored twice here.
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ4_0), 128 * 4.5);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ4_1), 128 * 5);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ5_0), 128 * 5.5);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ5_1), 128 * 6);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ4_K), 128 * 4.75);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ5_K), 128 * 5.75);
  EXPECT_EQ(StripBlockBytes(StripCodec::kQ6_K), 128 * 6.625);
  EXPECT_EQ(StripBlockBytes(StripCodec::kMxfp4), 128 * 4.25);
  EXPECT_EQ(StripBlockBytes(StripCodec::kNvfp4), 128 * 4.5);
  const StripMatrix nvfp4 = {.codec = StripCodec::kNvfp4, .n = 44, .k = 160};
  EXPECT_EQ(nvfp4.num_bytes(), 64 * (2 * 128 / 2 + 2 * 8) + 64 * 20);
  for (const SampleShape& shape : kSampleShapes) {
    const StripCodec codec = *ChooseStripCodec(SampleMatrix(shape, 8, 256, 1));
    EXPECT_EQ(StripBlockBytes(codec) % 16, 0) << "the copy engine takes multiples of 16 bytes";
  }
}

struct CodecCase {
  SampleShape shape;
  int64_t k;
  StripCodec codec;
};

TEST(StripMatrixTest, ChoosesTheCodecWithTheLargestGroups) {
  const CodecCase cases[] = {
      {{CodeKind::kInt4, 128}, 512, StripCodec::kInt4Group128},
      {{CodeKind::kInt4, 256}, 512, StripCodec::kInt4Group128},
      {{CodeKind::kInt4, 576}, 576, StripCodec::kInt4Group128},  // a channel
      {{CodeKind::kInt4, 64}, 512, StripCodec::kInt4Group32},
      {{CodeKind::kInt4, 96}, 576, StripCodec::kInt4Group32},
      {{CodeKind::kInt4, 64, true}, 512, StripCodec::kInt4Group32Zeros},
      {{CodeKind::kInt8, 32}, 512, StripCodec::kInt8Group32},
      {{CodeKind::kInt8, 576, true}, 576, StripCodec::kInt8Group128Zeros},
      {{CodeKind::kInt8, 64, true}, 512, StripCodec::kInt8Group32Zeros},
      {{CodeKind::kFp8E4M3, 128}, 576, StripCodec::kFp8Group128},
      {{CodeKind::kFp8E4M3, 576}, 576, StripCodec::kFp8Group128},
      {lockstep::testing::kQ4_0Shape, 512, StripCodec::kQ4_0},
      {lockstep::testing::kQ4_1Shape, 512, StripCodec::kQ4_1},
      {lockstep::testing::kQ5_0Shape, 512, StripCodec::kQ5_0},
      {lockstep::testing::kQ5_1Shape, 512, StripCodec::kQ5_1},
      {lockstep::testing::kQ4_KShape, 512, StripCodec::kQ4_K},
      {lockstep::testing::kQ5_KShape, 512, StripCodec::kQ5_K},
      {lockstep::testing::kQ6_KShape, 512, StripCodec::kQ6_K},
      {lockstep::testing::kMxfp4Shape, 512, StripCodec::kMxfp4},
      {lockstep::testing::kNvfp4Shape, 512, StripCodec::kNvfp4},
      {lockstep::testing::kNvfp4DividedShape, 528, StripCodec::kNvfp4},
  };
  for (const CodecCase& c : cases) {
    const absl::StatusOr<StripCodec> codec = ChooseStripCodec(SampleMatrix(c.shape, 16, c.k, 3));
    ASSERT_THAT(codec, IsOk());
    EXPECT_EQ(*codec, c.codec) << StripCodecName(*codec) << " for groups of "
                               << c.shape.group_columns;
  }
}

TEST(StripMatrixTest, WhatNoCodecHoldsIsRefusedByReason) {
  EXPECT_THAT(ChooseStripCodec(SampleMatrix({CodeKind::kInt4, 48}, 16, 576, 4)).status().ToString(),
              HasSubstr("groups of 48 columns"));
  EXPECT_THAT(
      ChooseStripCodec(SampleMatrix({CodeKind::kFp8E4M3, 64}, 16, 576, 4)).status().ToString(),
      HasSubstr("groups of 64 columns"));
  EXPECT_THAT(
      ChooseStripCodec(SampleMatrix({CodeKind::kFp4E2M1, 16}, 16, 128, 4)).status().ToString(),
      HasSubstr("groups of 16 columns"));
  QuantizedMatrix act_order = SampleMatrix({CodeKind::kInt4, 128}, 16, 256, 4);
  for (int column = 0; column < 256; ++column) act_order.group_of_column.push_back(column % 2);
  EXPECT_THAT(ChooseStripCodec(act_order).status().ToString(), HasSubstr("not neighbours"));
  QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 128}, 16, 256, 4);
  matrix.scales[7] = 0.1f;  // more bits than bf16 has
  EXPECT_THAT(ChooseStripCodec(matrix).status().ToString(),
              HasSubstr("of group 1 of row 3 has no exact value in bf16"));
  matrix = SampleMatrix({CodeKind::kInt8, 128}, 16, 256, 4);
  matrix.scales[4] = 0x1p-30f;  // not in fp16
  EXPECT_EQ(*ChooseStripCodec(matrix), StripCodec::kInt8Group128Zeros);
  matrix.scales[4] = 0x1p100f;
  EXPECT_THAT(ChooseStripCodec(matrix).status().ToString(),
              HasSubstr("of group 0 of row 2 has no exact value in bf16 below 2^100"));
}

TEST(StripMatrixTest, ScalesOfGgufThatNoCodecHoldsAreRefused) {
  using lockstep::testing::kQ4_1Shape;
  using lockstep::testing::kQ4_KShape;
  using lockstep::testing::kQ6_KShape;
  const auto refusal = [](const QuantizedMatrix& matrix) {
    return ChooseStripCodec(matrix).status().ToString();
  };
  QuantizedMatrix matrix = SampleMatrix(kQ4_1Shape, 4, 64, 4);
  matrix.minima[3] = 0.1f;
  EXPECT_THAT(refusal(matrix), HasSubstr("the minimum 0.1 of group 1 of row 1"));
  matrix = SampleMatrix(kQ4_KShape, 4, 512, 4);
  matrix.scales[17] = 256;
  EXPECT_THAT(refusal(matrix), HasSubstr("the scale 256 of group 1 of row 1"));
  matrix.scales[17] = -1;
  EXPECT_THAT(refusal(matrix), HasSubstr("the scale -1 of group 1 of row 1"));
  matrix.scales[17] = 1;
  matrix.block_minima[5] = 0.1f;
  EXPECT_THAT(refusal(matrix), HasSubstr("the minimum 0.1 of block 1 of row 2"));
  matrix = SampleMatrix(kQ6_KShape, 4, 512, 4);
  matrix.scales[0] = 128;
  EXPECT_THAT(refusal(matrix), HasSubstr("the scale 128 of group 0 of row 0"));
  matrix.scales[0] = 0.5f;
  EXPECT_THAT(refusal(matrix), HasSubstr("the scale 0.5 of group 0 of row 0"));

  EXPECT_THAT(refusal(SampleMatrix(kQ4_1Shape, 4, 72, 4)), HasSubstr("72 columns with minima"));
  SampleShape shape = kQ6_KShape;
  shape.block_columns = 192;
  EXPECT_THAT(refusal(SampleMatrix(shape, 4, 384, 4)), HasSubstr("blocks of 192 columns"));
  shape.block_columns = 0;
  EXPECT_THAT(refusal(SampleMatrix(shape, 4, 384, 4)), HasSubstr("6-bit codes with scales of one"));
  shape = {.kind = CodeKind::kInt5, .group_columns = 32, .block_columns = 256};
  EXPECT_THAT(refusal(SampleMatrix(shape, 4, 256, 4)), HasSubstr("5-bit codes with scales of two"));
}

}  // namespace
}  // namespace lockstep::kernels
