#include "kernels/formats/strips/strip_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/quantized_samples.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::kSampleShapes;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleShape;
using ::testing::HasSubstr;

// The code that a lane reads for a row and a column of a strip, by the words of strip_matrix.h.
uint8_t CodeAt(const PackedStrips& packed, int64_t strip, int row, int64_t column, int bits) {
  const int64_t block = column / kStripBlockColumns;
  const int in_block = static_cast<int>(column % kStripBlockColumns);
  // [bands][blocks of a strip][4 strips]
  const int64_t index = (strip / 4 * packed.matrix.num_blocks() + block) * 4 + strip % 4;
  const std::byte* const bytes =
      packed.storage.data() + index * StripBlockBytes(packed.matrix.codec);
  const int step = in_block / 16;
  const int lane = 4 * row + in_block % 8 / 2;
  const int pair = in_block % 16 >= 8 ? 1 : 0;
  const int second = in_block % 2;
  const int words = bits == 4 ? 4 : 8;  // of a lane
  const int word_index = step * words / 8;
  uint32_t word;
  std::memcpy(&word, bytes + (word_index / 4 * 32 + lane) * 16 + word_index % 4 * 4, sizeof(word));
  if (bits == 8) return static_cast<uint8_t>(word >> (16 * pair + 8 * second));
  return static_cast<uint8_t>(word >> (4 * (step % 2 * 2 + pair) + 16 * second) & 0xF);
}

TEST(StripMatrixTest, EveryCodeLiesWhereALaneReadsIt) {
  for (const SampleShape& shape : kSampleShapes) {
    const int bits = shape.kind == CodeKind::kInt4 ? 4 : 8;
    for (const int64_t k : {160, 2048}) {
      const int64_t n = 44;
      const QuantizedMatrix matrix = SampleMatrix(shape, n, k, 1);
      const absl::StatusOr<PackedStrips> packed = PackStrips(matrix);
      ASSERT_THAT(packed, IsOk());
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
  EXPECT_EQ(StripBlockBytes(StripCodec::kFp8Group128), 1024 + 32);
  for (const StripCodec codec : {StripCodec::kInt4Group32, StripCodec::kFp8Group128}) {
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
      {{CodeKind::kFp8E4M3, 128}, 576, StripCodec::kFp8Group128},
      {{CodeKind::kFp8E4M3, 576}, 576, StripCodec::kFp8Group128},
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
      ChooseStripCodec(SampleMatrix({CodeKind::kInt8, 128, true}, 16, 128, 4)).status().ToString(),
      HasSubstr("zero points"));
  EXPECT_THAT(
      ChooseStripCodec(SampleMatrix({CodeKind::kFp4E2M1, 16}, 16, 128, 4)).status().ToString(),
      HasSubstr("fp4 codes"));
  QuantizedMatrix act_order = SampleMatrix({CodeKind::kInt4, 128}, 16, 256, 4);
  for (int column = 0; column < 256; ++column) act_order.group_of_column.push_back(column % 2);
  EXPECT_THAT(ChooseStripCodec(act_order).status().ToString(), HasSubstr("not neighbours"));
  QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 128}, 16, 256, 4);
  matrix.scales[7] = 0.1f;  // more bits than bf16 has
  EXPECT_THAT(ChooseStripCodec(matrix).status().ToString(),
              HasSubstr("of group 1 of row 3 has no exact value in bf16"));
  matrix = SampleMatrix({CodeKind::kInt8, 128}, 16, 256, 4);
  matrix.scales[4] = 0x1p-30f;
  EXPECT_THAT(ChooseStripCodec(matrix).status().ToString(),
              HasSubstr("of group 0 of row 2 has no exact value in fp16"));
}

}  // namespace
}  // namespace lockstep::kernels
