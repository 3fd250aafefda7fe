#include "kernels/formats/panels/panel_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/kernels/formats/panel_samples.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::Dequantized;
using lockstep::testing::kPanelCases;
using lockstep::testing::MutableBytes;
using lockstep::testing::PanelCase;
using lockstep::testing::PanelSample;
using lockstep::testing::SampleScales;

constexpr int64_t kMaxRows = 200;
constexpr int64_t kRowCounts[] = {1, 2, 3, 5, 6, 7, 8, 13, 33, 96, 97, 129, kMaxRows};
constexpr int64_t kFewRowCounts[] = {1, 2, 3, 13};
constexpr int64_t kInputPadding = 6;   // elements behind each row of the input
constexpr int64_t kOutputPadding = 3;  // and of the output

BFloat16 NaN() { return ToBFloat16(std::numeric_limits<float>::quiet_NaN()); }

// Fills what belongs to outputs beyond n with ones: NaN, if a scale is a floating-point number.
void PoisonPadding(PackedPanels* packed) {
  const PanelLayout& layout = packed->matrix.layout;
  const int64_t first = packed->matrix.n % kPanelOutputs;
  if (first == 0) return;
  std::byte* const panel =
      MutableBytes(packed) + packed->matrix.n / kPanelOutputs * layout.panel_bytes;
  const auto poison = [&](int64_t offset, int64_t rows, int64_t bytes) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memset(panel + offset + (row * kPanelOutputs + first) * bytes, 0xFF,
                  static_cast<size_t>((kPanelOutputs - first) * bytes));
    }
  };
  const int64_t scale_bytes = BytesOf(layout.scales);
  poison(layout.scale_offset, layout.num_groups, scale_bytes);
  if (layout.has_minima) poison(layout.minimum_offset, layout.num_groups, scale_bytes);
  if (layout.has_zeros) poison(layout.zero_offset, layout.num_groups, 1);
  poison(layout.block_scale_offset, layout.num_blocks, 2);
  if (layout.has_minima) poison(layout.block_minimum_offset, layout.num_blocks, 2);
}

// A matrix twice: packed, and in bf16. NaN is wherever nothing may be read.
class PanelOperands {
 public:
  PanelOperands(const PanelCase& panel_case, SampleScales scales, int64_t n, int64_t k,
                float input_scale = 1.0f)
      : n(n),
        k(k),
        quantized(PanelSample(panel_case.shape, scales, n, k)),
        packed(*PackPanels(quantized)),
        converted_(static_cast<size_t>(PackedElements(n, k))),
        bias_(RandomFloats(static_cast<size_t>(n), 6)) {
    PoisonPadding(&packed);
    PackRows(ToFloats(Dequantized(quantized)).data(), 0, n, k, converted_.data());
    std::vector<float> floats =
        RandomFloats(static_cast<size_t>(kMaxRows * k), 7, Distribution::kOutliers);
    for (float& value : floats) value *= input_scale;
    const std::vector<BFloat16> values = ToBFloat16s(floats);
    for (int64_t row = 0; row < kMaxRows; ++row) {
      input_.insert(input_.end(), values.begin() + row * k, values.begin() + (row + 1) * k);
      input_.insert(input_.end(), kInputPadding, NaN());
    }
  }

  void SetInput(int64_t row, int64_t column, BFloat16 value) {
    input_[static_cast<size_t>(row * (k + kInputPadding) + column)] = value;
  }

  PanelGemmParams Packed(int64_t num_rows) const {
    return {.input = input_.data(),
            .input_stride = k + kInputPadding,
            .weights = packed.matrix,
            .bias = bias_.data(),
            .output_stride = n,
            .num_rows = num_rows};
  }
  std::vector<float> PackedF32(const Stream& stream, int64_t num_rows) const {
    std::vector<float> output(static_cast<size_t>(num_rows * n));
    PanelGemmParams params = Packed(num_rows);
    params.output_f32 = output.data();
    EXPECT_THAT(PanelGemm(stream, params), IsOk());
    return output;
  }
  std::vector<float> ConvertedF32(const Stream& stream, int64_t num_rows) const {
    std::vector<float> output(static_cast<size_t>(num_rows * n));
    EXPECT_THAT(Gemm(stream, {.input = input_.data(),
                              .input_stride = k + kInputPadding,
                              .weights = {.data = converted_.data(), .n = n, .k = k},
                              .bias = bias_.data(),
                              .output_f32 = output.data(),
                              .output_stride = n,
                              .num_rows = num_rows}),
                IsOk());
    return output;
  }

  const int64_t n;
  const int64_t k;
  QuantizedMatrix quantized;
  PackedPanels packed;

 private:
  std::vector<BFloat16> converted_;
  std::vector<float> bias_;
  std::vector<BFloat16> input_;
};

class PanelGemmTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }

  void ExpectBitsOfConverted(const PanelOperands& operands,
                             std::span<const int64_t> row_counts) const {
    const std::vector<float> expected = operands.ConvertedF32(Alone(), row_counts.back());
    for (const int64_t num_rows : row_counts) {
      const auto first = static_cast<size_t>(num_rows * operands.n);
      EXPECT_TRUE(
          IsSameBits(operands.PackedF32(Alone(), num_rows), std::span(expected).first(first)))
          << num_rows << " rows of " << operands.n << " x " << operands.k;
    }
  }
};

TEST_P(PanelGemmTest, PackedHasTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 2}, {33, 66}, {45, 160}, {40, 546}}) {
      const PanelOperands operands(panel_case, SampleScales::kOfFormat, n, k);
      if (k > 66) {
        EXPECT_EQ(operands.packed.matrix.layout.is_fused, panel_case.is_fused);
      }
      ExpectBitsOfConverted(operands, kRowCounts);
    }
  }
}

TEST_P(PanelGemmTest, ScalesWithAllBitsHaveTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    ExpectBitsOfConverted(PanelOperands(panel_case, SampleScales::kGaussian, 35, 194),
                          kFewRowCounts);
  }
}

TEST_P(PanelGemmTest, PowersOfTwoAsScalesHaveTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    const PanelOperands operands(panel_case, SampleScales::kPowers, 35, 194);
    const PanelLayout& layout = operands.packed.matrix.layout;
    EXPECT_EQ(layout.is_exact, layout.is_fused && layout.kind == CodeKind::kFp4E2M1);
    if (layout.kind == CodeKind::kFp4E2M1) {
      EXPECT_EQ(layout.is_fused, layout.group_columns % 16 == 0);
    }
    ExpectBitsOfConverted(operands, kFewRowCounts);
  }
}

TEST_P(PanelGemmTest, SubnormalWeightsHaveTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    const PanelOperands operands(panel_case, SampleScales::kSubnormal, 35, 130);
    EXPECT_FALSE(operands.packed.matrix.layout.is_fused);
    ExpectBitsOfConverted(operands, kFewRowCounts);
  }
}

// vdpbf16ps makes zeros of such sums, and other instructions do not.
TEST_P(PanelGemmTest, SubnormalSumsHaveTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    for (const float scale : {0x1p-118f, 0x1p-128f}) {
      ExpectBitsOfConverted(PanelOperands(panel_case, SampleScales::kOfFormat, 33, 66, scale),
                            kFewRowCounts);
    }
  }
}

TEST_P(PanelGemmTest, ExpandedHasTheBitsOfConverted) {
  for (const PanelCase& panel_case : kPanelCases) {
    SCOPED_TRACE(panel_case.name);
    PanelOperands operands(panel_case, SampleScales::kOfFormat, 35, 290);
    operands.packed.matrix.layout.is_fused = false;
    ExpectBitsOfConverted(operands, kFewRowCounts);
  }
}

TEST_P(PanelGemmTest, RoundsBf16OutputsOnceAfterTheBiasAndLeavesPaddingAlone) {
  const BFloat16 sentinel = ToBFloat16(-123.0f);
  for (const PanelCase& panel_case : kPanelCases) {
    const PanelOperands operands(panel_case, SampleScales::kOfFormat, 45, 64);
    for (const int64_t num_rows : {1, 9}) {
      const std::vector<float> exact = operands.PackedF32(Alone(), num_rows);
      const int64_t stride = operands.n + kOutputPadding;
      std::vector<BFloat16> output(static_cast<size_t>(num_rows * stride), sentinel);
      std::vector<BFloat16> expected = output;
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int64_t i = 0; i < operands.n; ++i) {
          expected[static_cast<size_t>(row * stride + i)] =
              ToBFloat16(exact[static_cast<size_t>(row * operands.n + i)]);
        }
      }
      PanelGemmParams params = operands.Packed(num_rows);
      params.output = output.data();
      params.output_stride = stride;
      ASSERT_THAT(PanelGemm(Alone(), params), IsOk());
      EXPECT_TRUE(IsSameBits(output, expected)) << panel_case.name;
    }
  }
}

TEST_P(PanelGemmTest, OneRowsNanStaysInItsRow) {
  for (const int64_t num_rows : {2, 14}) {
    PanelOperands operands({"", lockstep::testing::kQ4_1Shape}, SampleScales::kOfFormat, 40, 64);
    const std::vector<float> before = operands.PackedF32(Alone(), num_rows);
    operands.SetInput(1, 7, NaN());
    const std::vector<float> after = operands.PackedF32(Alone(), num_rows);
    EXPECT_TRUE(IsSameBits(std::span(after).first(40), std::span(before).first(40)));
    EXPECT_TRUE(IsSameBits(std::span(after).subspan(80), std::span(before).subspan(80)));
    for (size_t i = 40; i < 80; ++i) EXPECT_TRUE(std::isnan(after[i]));
  }
}

TEST_P(PanelGemmTest, BitsDoNotDependOnTheNumberOfThreads) {
  const PanelOperands operands({"", lockstep::testing::kQ4_KShape}, SampleScales::kOfFormat, 300,
                               512);
  const std::vector<float> expected = operands.ConvertedF32(Alone(), kMaxRows);
  for (const int num_threads : {1, 2, 3}) {
    ThreadPool threads(num_threads);
    const Stream stream = {.threads = &threads, .instruction_set = GetParam()};
    for (const int64_t num_rows : {int64_t{1}, int64_t{40}, kMaxRows}) {
      EXPECT_TRUE(IsSameBits(operands.PackedF32(stream, num_rows),
                             std::span(expected).first(static_cast<size_t>(num_rows * operands.n))))
          << num_rows << " rows, " << num_threads << " threads";
    }
  }
}

TEST_P(PanelGemmTest, WrongCallsAreRefused) {
  const PanelOperands operands(kPanelCases[0], SampleScales::kOfFormat, 8, 32);
  PanelGemmParams params = operands.Packed(1);
  EXPECT_THAT(PanelGemm(Alone(), params),
              HasError(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("one output")));
}

// What a kernel or a packer with a mistake would do, as a change of the packed bytes.
struct PanelFault {
  const char* name;
  int64_t PanelLayout::* part;  // null: the codes
  void (*plant)(std::byte* part, const PanelLayout& layout);
};

int64_t BytesOfRow(const PanelLayout& layout) { return kPanelOutputs * BytesOf(layout.scales); }

const PanelFault kFaults[] = {
    {"halves of bytes swapped", nullptr,
     [](std::byte* codes, const PanelLayout& layout) {
       for (int64_t i = 0; i < layout.num_steps * StepBytes(layout.kind); ++i) {
         codes[i] = codes[i] << 4 | codes[i] >> 4;
       }
     }},
    {"even and odd columns swapped", nullptr,
     [](std::byte* codes, const PanelLayout& layout) {
       const int64_t bytes = WordBytes(layout.kind) * kPanelOutputs;
       std::swap_ranges(codes, codes + bytes, codes + bytes);
     }},
    {"codes of the next output", nullptr,
     [](std::byte* codes, const PanelLayout& layout) {
       std::rotate(codes, codes + WordBytes(layout.kind),
                   codes + WordBytes(layout.kind) * kPanelOutputs);
     }},
    {"high bits of the next output", nullptr,
     [](std::byte* codes, const PanelLayout& layout) {
       const int64_t bytes = (StepBytes(layout.kind) - StepWordBytes(layout.kind)) / 2;
       codes += StepWordBytes(layout.kind);
       std::rotate(codes, codes + bytes / kPanelOutputs, codes + bytes);
     }},
    {"scales of the next group", &PanelLayout::scale_offset,
     [](std::byte* scales, const PanelLayout& layout) {
       const int64_t row = BytesOfRow(layout);
       std::rotate(scales, scales + row, scales + layout.num_groups * row);
     }},
    {"scales of the next output", &PanelLayout::scale_offset,
     [](std::byte* scales, const PanelLayout& layout) {
       std::rotate(scales, scales + BytesOf(layout.scales), scales + BytesOfRow(layout));
     }},
    {"minima of the next group", &PanelLayout::minimum_offset,
     [](std::byte* minima, const PanelLayout& layout) {
       if (!layout.has_minima) return;
       const int64_t row = BytesOfRow(layout);
       std::rotate(minima, minima + row, minima + layout.num_groups * row);
     }},
    {"zero points off by one", &PanelLayout::zero_offset,
     [](std::byte* zeros, const PanelLayout& layout) {
       if (!layout.has_zeros) return;
       for (int64_t i = 0; i < layout.num_groups * kPanelOutputs; ++i) {
         zeros[i] = static_cast<std::byte>(static_cast<uint8_t>(zeros[i]) + 1);
       }
     }},
    {"scales of the next block", &PanelLayout::block_scale_offset,
     [](std::byte* scales, const PanelLayout& layout) {
       const int64_t row = kPanelOutputs * 2;
       std::rotate(scales, scales + (layout.num_blocks > 0 ? row : 0),
                   scales + layout.num_blocks * row);
     }},
};

TEST_P(PanelGemmTest, PlantedFaultsAreSeen) {
  for (const PanelCase& panel_case : kPanelCases) {
    if (panel_case.shape.group_columns > 512) continue;  // one group
    for (const PanelFault& fault : kFaults) {
      PanelOperands operands(panel_case, SampleScales::kOfFormat, 32, 512);
      const PanelLayout layout = operands.packed.matrix.layout;
      const std::vector<PanelLine> before = operands.packed.storage;
      std::byte* const panel = MutableBytes(&operands.packed);
      fault.plant(panel + (fault.part == nullptr ? 0 : layout.*fault.part), layout);
      const bool is_planted =
          std::memcmp(before.data(), panel, static_cast<size_t>(layout.panel_bytes)) != 0;
      const std::vector<float> expected = operands.ConvertedF32(Alone(), 8);
      for (const int64_t num_rows : {1, 8}) {
        const auto count = static_cast<size_t>(num_rows * operands.n);
        EXPECT_EQ(static_cast<bool>(IsSameBits(operands.PackedF32(Alone(), num_rows),
                                               std::span(expected).first(count))),
                  !is_planted)
            << panel_case.name << ", " << fault.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, PanelGemmTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
