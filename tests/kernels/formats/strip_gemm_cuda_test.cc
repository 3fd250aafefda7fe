#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/gemm/gemm.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/fp4_samples.h"
#include "tests/kernels/formats/quantized_samples.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::ColumnsOf;
using lockstep::testing::CudaTest;
using lockstep::testing::DeviceArray;
using lockstep::testing::kMxfp4Shape;
using lockstep::testing::kNvfp4Shape;
using lockstep::testing::kSampleShapes;
using lockstep::testing::Mxfp4WithEveryScale;
using lockstep::testing::Nvfp4WithEveryScale;
using lockstep::testing::RowScales;
using lockstep::testing::SampleMatrix;
using lockstep::testing::SampleShape;

std::vector<BFloat16> Dequantized(const QuantizedMatrix& matrix) {
  std::vector<BFloat16> values(static_cast<size_t>(matrix.n * matrix.k));
  for (int64_t row = 0; row < matrix.n; ++row) {
    DequantizeRow(matrix, row, values.data() + row * matrix.k);
  }
  return values;
}

// A matrix on the device twice: packed, and in bf16. The input has NaN behind every row.
class StripOperands {
 public:
  static constexpr int64_t kPadding = 8;

  StripOperands(const SampleShape& shape, int64_t m, int64_t n, int64_t k)
      : StripOperands(SampleMatrix(shape, n, k, 5), m) {}
  StripOperands(QuantizedMatrix matrix, int64_t m)
      : quantized(std::move(matrix)),
        packed(*PackStrips(quantized)),
        weights_(Dequantized(quantized)),
        strips_(packed.storage),
        bias_(RandomFloats(static_cast<size_t>(quantized.n), 6)),
        input_(PaddedInput(m, quantized.k)) {
    packed.matrix.data = strips_.data();
  }

  // Changes a bit of the packed weights. Those in bf16 stay as they are.
  void PlantFault(int64_t byte) {
    packed.storage[static_cast<size_t>(byte)] ^= std::byte{64};
    strips_.Write(packed.storage);
  }

  StripGemmParams Packed(int64_t num_rows, bool with_bias) const {
    return {.input = input_.data(),
            .input_stride = packed.matrix.k + kPadding,
            .weights = packed.matrix,
            .bias = with_bias ? bias_.data() : nullptr,
            .output_stride = quantized.n,
            .num_rows = num_rows};
  }
  GemmParams Converted(int64_t num_rows, bool with_bias) const {
    return {.input = input_.data(),
            .input_stride = packed.matrix.k + kPadding,
            .weights = {.data = weights_.data(), .n = quantized.n, .k = quantized.k},
            .bias = with_bias ? bias_.data() : nullptr,
            .output_stride = quantized.n,
            .num_rows = num_rows};
  }

  QuantizedMatrix quantized;
  PackedStrips packed;

 private:
  static std::vector<BFloat16> PaddedInput(int64_t m, int64_t k) {
    const std::vector<BFloat16> values =
        RandomBFloat16s(static_cast<size_t>(m * k), 7, Distribution::kOutliers);
    const BFloat16 nan = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
    std::vector<BFloat16> padded;
    for (int64_t row = 0; row < m; ++row) {
      padded.insert(padded.end(), values.begin() + row * k, values.begin() + (row + 1) * k);
      padded.insert(padded.end(), kPadding, nan);
    }
    return padded;
  }

  DeviceArray<BFloat16> weights_;
  DeviceArray<std::byte> strips_;
  DeviceArray<float> bias_;
  DeviceArray<BFloat16> input_;
};

template <typename T, typename Run>
std::vector<T> Output(int64_t count, const Run& run) {
  DeviceArray<T> output(static_cast<size_t>(count));
  EXPECT_THAT(run(output.data()), IsOk());
  std::vector<T> values = output.Read();
  output.ExpectGuardsIntact();
  return values;
}

class StripGemmCudaTest : public CudaTest {
 protected:
  std::vector<BFloat16> Expanded(const StripOperands& operands) const {
    const StripMatrix& matrix = operands.packed.matrix;
    return Output<BFloat16>(matrix.n * matrix.k, [&](BFloat16* output) {
      return ExpandStrips(stream_, matrix, output);
    });
  }
  std::vector<float> PackedF32(const StripOperands& operands, int64_t num_rows, bool with_bias,
                               const StripTiling& tiling) const {
    return Output<float>(num_rows * operands.quantized.n, [&](float* output) {
      StripGemmParams params = operands.Packed(num_rows, with_bias);
      params.output_f32 = output;
      return LaunchStripGemm(stream_, params, /*gated=*/false, tiling);
    });
  }
  std::vector<float> ConvertedF32(const StripOperands& operands, int64_t num_rows,
                                  bool with_bias) const {
    return Output<float>(num_rows * operands.quantized.n, [&](float* output) {
      GemmParams params = operands.Converted(num_rows, with_bias);
      params.output_f32 = output;
      return Gemm(stream_, params);
    });
  }
};

// Tilings of every kernel, with rings that are short and long, and tiles that are narrow and wide.
std::vector<StripTiling> SomeTilings(const StripProblem& problem) {
  std::vector<StripTiling> tilings;
  for (const int strips : {1, 2}) {
    for (const int input_rows : {8, 16, 32, 64}) {
      if (strips == 1 && input_rows > kMaxNarrowInputRows) continue;
      for (const int bands : {1, 2, 3, 6}) {
        if (bands * kBandStrips / strips > kMaxTileWarps) continue;
        for (const bool holds : {false, true}) {
          if (holds && (input_rows != 8 || !CanHoldInput(problem))) continue;
          StripTiling tiling = {
              .bands = bands, .strips = strips, .input_rows = input_rows, .holds_input = holds};
          tiling.num_stages = StripStages(problem, tiling, bands == 2 ? 1 : 120 * 1024);
          if (StripSharedBytes(problem, tiling) <= kMaxStripSharedBytes) tilings.push_back(tiling);
        }
      }
    }
  }
  return tilings;
}

TEST_F(StripGemmCudaTest, ExpandedWeightsAreThoseOfTheFormat) {
  for (const SampleShape& shape : kSampleShapes) {
    for (const auto& [n, about_k] :
         {std::pair<int64_t, int64_t>{44, 576}, {160, 128}, {16, 1032}}) {
      const int64_t k = ColumnsOf(shape, about_k);
      const StripOperands operands(shape, 1, n, k);
      SCOPED_TRACE(StripCodecName(operands.packed.matrix.codec));
      EXPECT_TRUE(IsSameBits(Expanded(operands), Dequantized(operands.quantized)));
    }
  }
}

TEST_F(StripGemmCudaTest, EveryCodeUnderEveryScaleOfFp4HasTheBitsOfTheFormat) {
  const std::vector<float> row_scales = RowScales(300);
  for (const QuantizedMatrix& matrix :
       {Mxfp4WithEveryScale(), Nvfp4WithEveryScale(row_scales, /*divides=*/false),
        Nvfp4WithEveryScale(row_scales, /*divides=*/true)}) {
    const StripOperands operands(matrix, 1);
    SCOPED_TRACE(StripCodecName(operands.packed.matrix.codec));
    EXPECT_TRUE(IsSameBits(Expanded(operands), Dequantized(matrix)));
    const std::vector<float> expected = ConvertedF32(operands, 1, false);
    ASSERT_TRUE(IsFinite(expected));
    const StripProblem problem = {
        .codec = operands.packed.matrix.codec, .n = matrix.n, .k = matrix.k, .num_rows = 1};
    for (const StripTiling& tiling : SomeTilings(problem)) {
      EXPECT_TRUE(IsSameBits(PackedF32(operands, 1, false, tiling), expected));
    }
  }
}

// A bit of a code, of the scale of a group, and of each part of the table of rows.
TEST_F(StripGemmCudaTest, FaultsInPackedFp4AreSeen) {
  for (const SampleShape& shape : {kMxfp4Shape, kNvfp4Shape}) {
    StripOperands operands(shape, 1, 44, 512);
    const StripMatrix& matrix = operands.packed.matrix;
    SCOPED_TRACE(StripCodecName(matrix.codec));
    const std::vector<BFloat16> expected = Dequantized(operands.quantized);
    const std::vector<float> expected_product = ConvertedF32(operands, 1, false);
    const StripTiling tiling = {.bands = 1, .strips = 1, .input_rows = 8, .num_stages = 2};
    ASSERT_TRUE(IsSameBits(PackedF32(operands, 1, false, tiling), expected_product));
    const StripCodecShape codec = ShapeOfStripCodec(matrix.codec);
    std::vector<int64_t> places = {0, codec.code_bytes()};
    if (codec.row_bytes() != 0) {
      const int64_t table = matrix.blocks_bytes();
      places.insert(places.end(), {table, table + 8, table + 16 * matrix.num_rows()});
    }
    for (const int64_t place : places) {
      operands.PlantFault(place);
      EXPECT_FALSE(IsSameBits(Expanded(operands), expected)) << "byte " << place;
      EXPECT_FALSE(IsSameBits(PackedF32(operands, 1, false, tiling), expected_product))
          << "byte " << place;
      operands.PlantFault(place);  // undone
    }
    EXPECT_TRUE(IsSameBits(Expanded(operands), expected));
  }
}

TEST_F(StripGemmCudaTest, PackedHasTheBitsOfConverted) {
  for (const SampleShape& shape : kSampleShapes) {
    for (const auto& [n, about_k] :
         {std::pair<int64_t, int64_t>{80, 576}, {49, 128}, {64, 3072}, {200, 1032}}) {
      const int64_t k = ColumnsOf(shape, about_k);
      const StripOperands operands(shape, 129, n, k);
      for (const int64_t num_rows : {1, 2, 8, 9, 17, 33, 64, 129}) {
        const std::vector<float> expected = ConvertedF32(operands, num_rows, true);
        ASSERT_TRUE(IsFinite(expected));
        const StripProblem problem = {
            .codec = operands.packed.matrix.codec, .n = n, .k = k, .num_rows = num_rows};
        std::vector<StripTiling> tilings = SomeTilings(problem);
        tilings.push_back(ChooseStripTiling(problem, stream_.num_multiprocessors));
        for (const StripTiling& tiling : tilings) {
          ASSERT_TRUE(IsSameBits(PackedF32(operands, num_rows, true, tiling), expected))
              << StripCodecName(problem.codec) << ", " << n << " x " << k << ", " << num_rows
              << " rows, tiles of " << tiling.bands << " bands, " << tiling.strips
              << " strips a warp, " << tiling.input_rows << " rows, " << tiling.num_stages
              << " stages" << (tiling.holds_input ? ", held" : "");
        }
      }
    }
  }
}

TEST_F(StripGemmCudaTest, BF16OutputsAndSwiGluHaveTheBitsOfConverted) {
  for (const SampleShape& shape : kSampleShapes) {
    const StripOperands operands(shape, 64, 384, 640);
    for (const int64_t num_rows : {1, 5, 16, 24, 64}) {
      for (const bool gated : {false, true}) {
        const int64_t columns = gated ? operands.quantized.n / 2 : operands.quantized.n;
        const std::vector<BFloat16> expected =
            Output<BFloat16>(num_rows * columns, [&](BFloat16* output) {
              GemmParams params = operands.Converted(num_rows, true);
              params.output = output;
              params.output_stride = columns;
              return gated ? GemmSwiGlu(stream_, params) : Gemm(stream_, params);
            });
        const std::vector<BFloat16> actual =
            Output<BFloat16>(num_rows * columns, [&](BFloat16* output) {
              StripGemmParams params = operands.Packed(num_rows, true);
              params.output = output;
              params.output_stride = columns;
              return gated ? StripGemmSwiGlu(stream_, params) : StripGemm(stream_, params);
            });
        EXPECT_TRUE(IsSameBits(actual, expected))
            << StripCodecName(operands.packed.matrix.codec) << ", " << num_rows << " rows"
            << (gated ? ", SwiGLU" : "");
      }
    }
  }
}

// Fewer multiprocessors have several tiles each.
TEST_F(StripGemmCudaTest, BitsDoNotDependOnTheNumberOfMultiprocessors) {
  const StripOperands operands({CodeKind::kInt4, 128}, 40, 1048, 1024);
  for (const int64_t num_rows : {1, 8, 40}) {
    const std::vector<float> expected = ConvertedF32(operands, num_rows, false);
    for (const int multiprocessors : {1, 3, 64}) {
      CudaStream stream = stream_;
      stream.num_multiprocessors = multiprocessors;
      const std::vector<float> actual =
          Output<float>(num_rows * operands.quantized.n, [&](float* output) {
            StripGemmParams params = operands.Packed(num_rows, false);
            params.output_f32 = output;
            return StripGemm(stream, params);
          });
      EXPECT_TRUE(IsSameBits(actual, expected)) << multiprocessors << " multiprocessors";
    }
  }
}

TEST_F(StripGemmCudaTest, WrongCallsAreRefused) {
  const StripOperands operands({CodeKind::kInt4, 128}, 8, 72, 128);
  DeviceArray<float> output(size_t{8 * 72});
  StripGemmParams params = operands.Packed(8, false);
  EXPECT_THAT(StripGemm(stream_, params), HasError(kInvalid, ::testing::_));
  params.output_f32 = output.data();
  EXPECT_THAT(StripGemmSwiGlu(stream_, params), HasError(kInvalid, ::testing::_));
  const StripTiling tiling = {.bands = 1, .strips = 1, .input_rows = 8, .num_stages = 2};
  EXPECT_THAT(LaunchStripGemm(stream_, params, false, tiling), IsOk());
  struct {
    const char* what;
    int StripTiling::* field;
    int value;
  } const wrong[] = {{"bands", &StripTiling::bands, 4},
                     {"bands", &StripTiling::bands, 0},
                     {"strips", &StripTiling::strips, 3},
                     {"rows", &StripTiling::input_rows, 24},
                     {"narrow rows", &StripTiling::input_rows, 64},
                     {"stages", &StripTiling::num_stages, 1}};
  for (const auto& [what, field, value] : wrong) {
    StripTiling changed = tiling;
    changed.*field = value;
    EXPECT_THAT(LaunchStripGemm(stream_, params, false, changed), HasError(kInvalid, ::testing::_))
        << what;
  }
  params.weights.k = 132;
  EXPECT_THAT(StripGemm(stream_, params), HasError(kInvalid, ::testing::_));
}

}  // namespace
}  // namespace lockstep::kernels
