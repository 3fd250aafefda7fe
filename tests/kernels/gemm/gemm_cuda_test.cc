#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_tiling.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/gemm/gemm_cuda_fixture.h"
#include "tests/kernels/gemm/gemm_cuda_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::CompiledTilings;
using lockstep::testing::DeviceArray;
using lockstep::testing::GemmOperands;
using lockstep::testing::OutputBFloat16;
using lockstep::testing::OutputF32;

struct Reference {
  std::vector<double> values;
  std::vector<double> tolerance;
};

// fp64, and the bound on the error of a sum of k products in fp32. The matrix units align the terms
// of a step of 16 before they add them and cut off what does not fit, which costs up to one unit of
// the largest term for each: two units a product in all.
Reference ComputeReference(const GemmOperands& operands) {
  Reference reference;
  for (int64_t row = 0; row < operands.m; ++row) {
    for (int64_t column = 0; column < operands.n; ++column) {
      double sum = operands.bias_values[static_cast<size_t>(column)];
      double magnitude = std::abs(sum);
      for (int64_t i = 0; i < operands.k; ++i) {
        const double product =
            static_cast<double>(
                ToFloat(operands.input_values[static_cast<size_t>(row * operands.k + i)])) *
            ToFloat(operands.weight_values[static_cast<size_t>(column * operands.k + i)]);
        sum += product;
        magnitude += std::abs(product);
      }
      reference.values.push_back(sum);
      reference.tolerance.push_back(static_cast<double>(operands.k + 2) * 0x1p-23 * magnitude);
    }
  }
  return reference;
}

TEST_F(GemmCudaTest, IsCloseToTheReference) {
  const int64_t shapes[][3] = {{1, 1, 8},    {1, 49, 576},  {3, 7, 80},     {5, 96, 1000},
                               {13, 65, 24}, {24, 160, 64}, {65, 200, 136}, {150, 49, 320}};
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const auto& [m, n, k] : shapes) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
      const GemmOperands operands(m, n, k, distribution);
      const Reference reference = ComputeReference(operands);
      const GemmParams params = operands.Params(0, m, /*with_bias=*/true);
      EXPECT_TRUE(IsWithin(OutputF32(params, Own()), reference.values, reference.tolerance));
      EXPECT_TRUE(IsWithin(OutputF32(params, Chain()), reference.values, reference.tolerance));
    }
  }
}

TEST_F(GemmCudaTest, HasTheBitsOfThePlainChain) {
  const int64_t shapes[][3] = {
      {1, 960, 576},    {7, 576, 1536},  {8, 49, 576},     {9, 1024, 2048}, {33, 4096, 1024},
      {64, 1024, 3072}, {64, 512, 4096}, {100, 3072, 576}, {200, 520, 80},  {256, 1000, 1024}};
  for (const auto& [m, n, k] : shapes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    const GemmOperands operands(m, n, k, Distribution::kOutliers);
    const GemmParams params = operands.Params(0, m);
    const std::vector<float> expected = OutputF32(params, Chain());
    ASSERT_TRUE(IsFinite(expected));
    EXPECT_TRUE(IsSameBits(OutputF32(params, Own()), expected));
  }
}

TEST_F(GemmCudaTest, BitsDoNotDependOnTheNumberOfRows) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1024, 3072}, {49, 576}}) {
    const GemmOperands operands(256, n, k, Distribution::kOutliers);
    std::vector<float> alone;
    for (int64_t row = 0; row < operands.m; ++row) {
      const std::vector<float> values = OutputF32(operands.Params(row, 1), Own());
      alone.insert(alone.end(), values.begin(), values.end());
    }
    for (const int64_t num_rows :
         {2, 3, 7, 8, 9, 15, 16, 17, 31, 48, 63, 64, 65, 127, 128, 129, 256}) {
      for (const int64_t first_row : {int64_t{0}, operands.m - num_rows}) {
        EXPECT_TRUE(IsSameBits(OutputF32(operands.Params(first_row, num_rows), Own()),
                               std::span(alone).subspan(static_cast<size_t>(first_row * n),
                                                        static_cast<size_t>(num_rows * n))))
            << num_rows << " rows from " << first_row << ", n = " << n;
      }
    }
  }
}

// Fewer multiprocessors get other tilings, and more tiles each.
TEST_F(GemmCudaTest, BitsDoNotDependOnTheNumberOfMultiprocessors) {
  // Rings are longer from a k of 2,048 on.
  for (const auto& [num_rows, k] : {std::pair<int64_t, int64_t>{1, 1024},
                                    {1, 1032},
                                    {1, 2048},
                                    {1, 2056},
                                    {8, 1032},
                                    {8, 2048},
                                    {16, 2056},
                                    {40, 1032},
                                    {128, 1032},
                                    {700, 1032}}) {
    const GemmOperands operands(num_rows, 2100, k, Distribution::kOutliers);
    const GemmParams params = operands.Params(0, num_rows, /*with_bias=*/true);
    const std::vector<float> expected = OutputF32(params, Chain());
    for (const int num_multiprocessors : {114, 78, 7, 1}) {
      CudaStream stream = stream_;
      stream.num_multiprocessors = num_multiprocessors;
      const auto run = [&](const GemmParams& some) { return Gemm(stream, some); };
      EXPECT_TRUE(IsSameBits(OutputF32(params, run), expected))
          << num_rows << " rows, k " << k << ", on " << num_multiprocessors << " multiprocessors";
    }
  }
}

TEST_F(GemmCudaTest, EveryTilingGivesTheSameBits) {
  // Whole blocks of k are copied slab by slab. If k ends within a block, every block is copied
  // alone.
  for (const auto& [num_rows, k] : {std::pair<int64_t, int64_t>{1, 712},
                                    {1, 768},
                                    {5, 712},
                                    {5, 704},
                                    {40, 712},
                                    {40, 832},
                                    {64, 704},
                                    {130, 712},
                                    {130, 832}}) {
    const GemmOperands operands(num_rows, 1000, k, Distribution::kOutliers);
    const GemmParams params = operands.Params(0, num_rows, /*with_bias=*/true);
    const std::vector<float> expected = OutputF32(params, Chain());
    const auto rounded = OutputBFloat16(params, Chain());  // other stores
    const std::vector<GemmTiling> tilings = CompiledTilings(num_rows, k, GemmEpilogue::kPlain);
    EXPECT_GE(tilings.size(), 50u);
    for (const GemmTiling& tiling : tilings) {
      SCOPED_TRACE(::testing::Message()
                   << num_rows << " rows, k " << k << ", " << Describe(tiling));
      EXPECT_TRUE(IsSameBits(OutputF32(params, Tiled(tiling)), expected));
      EXPECT_TRUE(IsSameBits(OutputBFloat16(params, Tiled(tiling)), rounded));
    }
  }
}

TEST_F(GemmCudaTest, RoundsBf16OutputsOnceAfterTheBiasAndLeavesPaddingAlone) {
  struct Case {
    int64_t n;
    int64_t padding;
  };
  std::vector<std::pair<int64_t, Case>> cases;
  for (const int64_t num_rows : {5, 12, 70}) {
    // The last stride is a whole number of 16 bytes, the rows are not.
    for (const Case& of : {Case{49, 3}, {64, 3}, {64, 8}, {98, 6}})
      cases.emplace_back(num_rows, of);
  }
  for (const auto& [num_rows, of] : cases) {
    const auto& [n, padding] = of;
    SCOPED_TRACE(::testing::Message() << num_rows << " rows, n = " << n << " + " << padding);
    const GemmOperands operands(num_rows, n, 320, Distribution::kOutliers);
    GemmParams params = operands.Params(0, operands.m, /*with_bias=*/true);
    const std::vector<float> exact = OutputF32(params, Own());
    const BFloat16 sentinel = ToBFloat16(-123.0f);
    const size_t count = static_cast<size_t>(operands.m * (n + padding));
    DeviceArray<BFloat16> output(std::vector<BFloat16>(count, sentinel));
    params.output = output.data();
    params.output_stride = n + padding;
    ASSERT_THAT(Gemm(stream_, params), IsOk());
    std::vector<BFloat16> expected;
    for (int64_t row = 0; row < operands.m; ++row) {
      for (int64_t i = 0; i < n; ++i) {
        expected.push_back(ToBFloat16(exact[static_cast<size_t>(row * n + i)]));
      }
      expected.insert(expected.end(), static_cast<size_t>(padding), sentinel);
    }
    EXPECT_TRUE(IsSameBits(output.Read(), expected));
    output.ExpectGuardsIntact();
  }
}

TEST_F(GemmCudaTest, OneRowsNanStaysInItsRow) {
  for (const int64_t m : {14, 70}) {
    GemmOperands operands(m, 40, 64, Distribution::kGaussian);
    const std::vector<float> before = OutputF32(operands.Params(0, m), Own());
    operands.input_values[5 * 64] = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
    operands.WriteInput();
    const std::vector<float> after = OutputF32(operands.Params(0, m), Own());
    EXPECT_TRUE(IsSameBits(std::span(after).first(5 * 40), std::span(before).first(5 * 40)));
    EXPECT_TRUE(IsSameBits(std::span(after).subspan(6 * 40), std::span(before).subspan(6 * 40)));
    EXPECT_TRUE(std::isnan(after[5 * 40]));
  }
}

// Each product reads what the one before it wrote: the wait of an overlapped launch must hold, and
// the graph must do what the calls do.
TEST_F(GemmCudaTest, OverlappedAndCapturedLaunchesGiveTheSameBits) {
  constexpr int64_t kSize = 1024;
  constexpr int kLength = 24;
  for (const int64_t num_rows : {1, 20}) {
    const GemmOperands operands(num_rows, kSize, kSize, Distribution::kGaussian);
    const size_t count = static_cast<size_t>(num_rows * kSize);
    // The last output of a chain that goes to and fro between two buffers.
    const auto run_chain = [&](const CudaStream& stream, bool captured) {
      DeviceArray<BFloat16> first(count);
      DeviceArray<BFloat16> second(count);
      const auto enqueue = [&] {
        GemmParams params = operands.Params(0, num_rows);
        for (int i = 0; i < kLength; ++i) {
          params.output = i % 2 == 0 ? first.data() : second.data();
          EXPECT_THAT(Gemm(stream, params), IsOk());
          params.input = params.output;
          params.input_stride = kSize;
        }
      };
      if (captured) {
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        EXPECT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeThreadLocal),
                  cudaSuccess);
        enqueue();
        EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaSuccess);
        EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
        EXPECT_EQ(cudaGraphLaunch(executable, stream.handle), cudaSuccess);
        EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaSuccess);
        EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
        EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
      } else {
        enqueue();
      }
      return second.Read();
    };
    const std::vector<BFloat16> expected = run_chain(stream_, /*captured=*/false);
    ASSERT_TRUE(IsFinite(ToFloats(expected)));
    CudaStream overlapped = stream_;
    overlapped.overlap_launches = true;
    for (int repeat = 0; repeat < 5; ++repeat) {
      EXPECT_TRUE(IsSameBits(run_chain(overlapped, /*captured=*/false), expected));
      EXPECT_TRUE(IsSameBits(run_chain(overlapped, /*captured=*/true), expected));
    }
  }
}

TEST_F(GemmCudaTest, RefusesToHoldWhatIsNotOneRowOfWholeStages) {
  struct Case {
    int64_t num_rows;
    int64_t k;
    int held_blocks;
  };
  for (const auto& [num_rows, k, held_blocks] :
       {Case{2, 512, 8}, Case{1, 520, 8}, Case{1, 1024, 8}, Case{1, 320, 5}}) {
    const GemmOperands operands(num_rows, 64, k, Distribution::kGaussian);
    GemmParams params = operands.Params(0, num_rows);
    DeviceArray<float> output(static_cast<size_t>(num_rows * 64));
    params.output_f32 = output.data();
    const GemmTiling tiling = {.unit = GemmUnit::kSwapped,
                               .weight_rows = 16,
                               .input_rows = 8,
                               .num_stages = 2,
                               .held_input_blocks = held_blocks};
    EXPECT_EQ(Tiled(tiling)(params).code(), absl::StatusCode::kInvalidArgument)
        << num_rows << " x " << k;
  }
}

TEST_F(GemmCudaTest, NoRowsAreNoWork) {
  const GemmOperands operands(1, 16, 16, Distribution::kGaussian);
  GemmParams params = operands.Params(0, 0);
  DeviceArray<float> output(16);
  params.output_f32 = output.data();
  EXPECT_THAT(Gemm(stream_, params), IsOk());
}

}  // namespace
}  // namespace lockstep::kernels
