#include "kernels/formats/panels/panel_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/formats/panels/expand_panel.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/panel_samples.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::Dequantized;
using lockstep::testing::kPanelCases;
using lockstep::testing::PanelCase;
using lockstep::testing::PanelSample;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleScales;
using lockstep::testing::SampleShape;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

template <typename T>
T ElementAt(const std::byte* bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// The code of an output and a column, by the words of panel_layout.h.
int CodeAt(const PanelMatrix& matrix, int64_t output, int64_t column) {
  const std::byte* const panel = matrix.data + output / 32 * matrix.layout.panel_bytes;
  const int64_t word = column % 2 * 32 + output % 32;
  if (matrix.layout.kind == CodeKind::kFp8E4M3) {
    const auto codes = ElementAt<uint16_t>(panel + column / 4 * 128, word);
    return codes >> (column % 4 / 2 * 8) & 0xFF;
  }
  if (matrix.layout.kind == CodeKind::kInt8) {
    const auto codes = ElementAt<uint32_t>(panel + column / 8 * 256, word);
    return static_cast<int>(codes >> (column % 8 / 2 * 8) & 0xFF);
  }
  const int bits = CodeBits(matrix.layout.kind);
  const int64_t pair = column % 16 / 2;
  const std::byte* const step = panel + column / 16 * (64 * bits);
  const std::byte* const high_bits = step + 256;
  const auto low = static_cast<int>(ElementAt<uint32_t>(step, word) >> (4 * pair) & 0xF);
  if (bits == 5) return low | (ElementAt<uint8_t>(high_bits, word) >> pair & 1) << 4;
  if (bits == 6) return low | (ElementAt<uint16_t>(high_bits, word) >> (2 * pair) & 3) << 4;
  return low;
}

TEST(PanelMatrixTest, EveryCodeLiesWhereALaneReadsIt) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    const QuantizedMatrix matrix = SampleMatrix(panel_case.shape, 70, 150, 1);
    const absl::StatusOr<PackedPanels> packed = PackPanels(matrix);
    ASSERT_THAT(packed, IsOk());
    for (int64_t output = 0; output < matrix.n; ++output) {
      for (int64_t column = 0; column < matrix.k; ++column) {
        ASSERT_EQ(CodeAt(packed->matrix, output, column),
                  matrix.codes[static_cast<size_t>(output * matrix.k + column)])
            << "output " << output << ", column " << column;
      }
    }
  }
}

// All panels, as PackRows packs bf16.
std::vector<BFloat16> Expanded(const PanelMatrix& matrix) {
  const int64_t step_columns = StepColumns(matrix.layout.kind);
  std::vector<BFloat16> result;
  std::vector<BFloat16> pairs(
      static_cast<size_t>(matrix.layout.num_steps * step_columns * kPanelOutputs));
  for (int64_t panel = 0; panel < NumPanels(matrix.n); ++panel) {
    ExpandPanel(matrix, panel, 0, matrix.layout.num_steps, pairs.data());
    result.insert(result.end(), pairs.begin(), pairs.begin() + matrix.k * kPanelOutputs);
  }
  return result;
}

TEST(PanelMatrixTest, ExpandedPanelsAreThoseOfTheConvertedMatrix) {
  for (const PanelCase& panel_case : kPanelCases) {
    for (const SampleScales scales :
         {SampleScales::kOfFormat, SampleScales::kGaussian, SampleScales::kSubnormal}) {
      SCOPED_TRACE(panel_case.name);
      const QuantizedMatrix matrix = PanelSample(panel_case.shape, scales, 70, 194);
      const absl::StatusOr<PackedPanels> packed = PackPanels(matrix);
      ASSERT_THAT(packed, IsOk());
      std::vector<BFloat16> expected(static_cast<size_t>(PackedElements(matrix.n, matrix.k)));
      PackRows(ToFloats(Dequantized(matrix)).data(), 0, matrix.n, matrix.k, expected.data());
      EXPECT_TRUE(IsSameBits(Expanded(packed->matrix), expected));
    }
  }
}

TEST(PanelMatrixTest, PackedBytesAreAboutThoseOfTheFile) {
  struct {
    SampleShape shape;
    double bits;
    double bits_of_file;
  } const cases[] = {
      {{CodeKind::kInt4, 128}, 4.125, 4.125},
      {{CodeKind::kInt4, 128, true}, 4.1875, 4.15625},
      {{CodeKind::kFp8E4M3, 128}, 8.125, 8.25},
      {lockstep::testing::kQ8_0Shape, 8.5, 8.5},
      {lockstep::testing::kQ4_0Shape, 4.5, 4.5},
      {lockstep::testing::kQ4_1Shape, 5, 5},
      {lockstep::testing::kQ5_0Shape, 5.5, 5.5},
      {lockstep::testing::kQ5_1Shape, 6, 6},
      {lockstep::testing::kQ4_KShape, 4.625, 4.5},
      {lockstep::testing::kQ5_KShape, 5.625, 5.5},
      {lockstep::testing::kQ6_KShape, 6.5625, 6.5625},
  };
  for (const auto& [shape, bits, bits_of_file] : cases) {
    const PackedPanels packed = *PackPanels(SampleMatrix(shape, 64, 1024, 2));
    EXPECT_EQ(static_cast<double>(NumBytes(packed.matrix)) * 8 / (64 * 1024), bits);
    EXPECT_LE(bits, 1.05 * bits_of_file);
  }
}

TEST(PanelMatrixTest, ScalesAreStoredInTheSmallestExactType) {
  const auto scales_of = [](const QuantizedMatrix& matrix) {
    return PackPanels(matrix)->matrix.layout.scales;
  };
  QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 32}, 8, 64, 3);
  EXPECT_EQ(scales_of(matrix), PanelScales::kBFloat16);
  matrix.scales[3] = 0x1.ffcp-8f;
  EXPECT_EQ(scales_of(matrix), PanelScales::kFloat16);
  matrix.scales[4] = 0x1p-30f;
  EXPECT_EQ(scales_of(matrix), PanelScales::kFloat32);
  matrix = SampleMatrix(lockstep::testing::kQ4_KShape, 8, 512, 3);
  EXPECT_EQ(scales_of(matrix), PanelScales::kBytes);
  matrix.minima[5] = 0.5f;
  EXPECT_EQ(scales_of(matrix), PanelScales::kFloat32);
  matrix = SampleMatrix(lockstep::testing::kQ6_KShape, 8, 512, 3);
  EXPECT_EQ(scales_of(matrix), PanelScales::kSignedBytes);
  matrix.block_scales[0] = 0.1f;
  EXPECT_EQ(scales_of(matrix), PanelScales::kFloat32);
}

TEST(PanelMatrixTest, WhatPanelsDoNotHoldIsRefusedByReason) {
  EXPECT_THAT(PackPanels(SampleMatrix({CodeKind::kInt4, 32}, 4, 33, 4)),
              HasError(kInvalid, HasSubstr("k must be even, got 33")));
  QuantizedMatrix matrix = SampleMatrix({CodeKind::kInt4, 128}, 16, 256, 4);
  for (int column = 0; column < 256; ++column) matrix.group_of_column.push_back(column % 2);
  EXPECT_THAT(PackPanels(matrix), HasError(kInvalid, HasSubstr("not neighbours")));
  matrix = SampleMatrix({CodeKind::kInt5, 32}, 4, 64, 4);
  matrix.codes[64 + 7] = 32;
  EXPECT_THAT(PackPanels(matrix),
              HasError(kInvalid, HasSubstr("column 7 of row 1 has the code 32")));
  matrix = SampleMatrix({CodeKind::kFp8E4M3, 32}, 4, 64, 4);
  matrix.codes[3] = 0xFF;
  EXPECT_THAT(PackPanels(matrix),
              HasError(kInvalid, HasSubstr("column 3 of row 0 has the code 255")));
}

}  // namespace
}  // namespace lockstep::kernels
