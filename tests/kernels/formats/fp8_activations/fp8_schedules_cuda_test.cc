// A row of an FP8 product has the same bits in every batch, with every kernel and tiling.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/fp8_tiling.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/gemm/tile/gemm_launch.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/fp8_activations/fp8_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

class Fp8SchedulesCudaTest : public Fp8CudaTest {
 protected:
  // Compares on the device.
  ::testing::AssertionResult HasBits(const DeviceArray<float>& output, const float* expected,
                                     int64_t num_columns) const {
    DeviceArray<unsigned long long> first(std::vector<unsigned long long>{~0ull});
    const absl::Status status =
        FindFirstDifference(stream_,
                            {.expected = expected,
                             .actual = output.data(),
                             .num_elements = static_cast<int64_t>(output.size()),
                             .element_bytes = 4},
                            first.data());
    if (!status.ok()) return ::testing::AssertionFailure() << status;
    const unsigned long long at = first.Read()[0];
    if (at == ~0ull) return ::testing::AssertionSuccess();
    const auto columns = static_cast<unsigned long long>(num_columns);
    return ::testing::AssertionFailure()
           << "row " << at / columns << ", column " << at % columns << ": " << output.Read()[at];
  }
};

Fp8Tiling WithStages(const Fp8Problem& problem, Fp8Tiling tiling, int num_stages) {
  tiling.num_stages = std::min(num_stages, Fp8Stages(problem, tiling, kMaxFp8SharedBytes));
  return tiling;
}

// Tilings of every kernel that takes the rows, with rings that are short and long.
std::vector<Fp8Tiling> AllTilings(const Fp8Problem& problem) {
  std::vector<Fp8Tiling> tilings;
  for (const int num_stages : {2, 12}) {
    for (const int input_rows : {8, 16, 32, 64, 128}) {
      if (input_rows < problem.num_rows) continue;
      for (const int weight_rows : {16, 48, 64, 80, 128}) {
        tilings.push_back(WithStages(
            problem, {.input_rows = input_rows, .weight_rows = weight_rows}, num_stages));
      }
    }
    for (const auto& [input_rows, cluster_blocks] : {std::pair{128, 1}, {256, 1}, {256, 2}}) {
      tilings.push_back(WithStages(problem,
                                   {.unit = Fp8Unit::kManyRows,
                                    .input_rows = input_rows,
                                    .weight_rows = kFp8TileColumns,
                                    .cluster_blocks = cluster_blocks},
                                   num_stages));
    }
  }
  std::erase_if(tilings, [](const Fp8Tiling& tiling) { return tiling.num_stages < 2; });
  return tilings;
}

// Every number of rows up to 129, and some beyond: all kernels, alone and in batches, at any place
// of the batch.
TEST_F(Fp8SchedulesCudaTest, ARowHasTheSameBitsInEveryBatch) {
  constexpr int64_t kMostRows = 1040;
  for (const Fp8ScaleLayout layout : kFp8Layouts) {
    std::vector<Fp8Shape> shapes(std::begin(kLargeFp8Shapes), std::end(kLargeFp8Shapes));
    shapes.insert(shapes.end(), std::begin(kSmallFp8Shapes), std::end(kSmallFp8Shapes));
    for (const Fp8Shape& shape : shapes) {
      const TestWeights weights(shape, layout);
      const TestRows rows(kMostRows, shape.k, Distribution::kOutliers);
      const TestCodes all = Quantized(rows, 0, kMostRows, shape.k);
      const DeviceArray<float> expected(Product(all, weights));
      std::vector<int64_t> batches;
      for (int64_t batch = 1; batch <= 129; ++batch) batches.push_back(batch);
      batches.insert(batches.end(), {192, 255, 256, 257, 384, 512, 513, 1024});
      for (const int64_t batch : batches) {
        const int64_t first_row = batch * 37 % (kMostRows - batch + 1);
        const TestCodes codes = Quantized(rows, first_row, batch, shape.k);
        const DeviceArray<float> output(static_cast<size_t>(batch * shape.n));
        Fp8GemmParams params = Params(codes, weights);
        params.output_f32 = output.data();
        ASSERT_THAT(Fp8Gemm(stream_, params), IsOk());
        ASSERT_TRUE(HasBits(output, expected.data() + first_row * shape.n, shape.n))
            << NameOf(layout) << ", " << shape.n << " x " << shape.k << ", rows " << first_row
            << " to " << first_row + batch - 1 << ", tiles "
            << DescribeFp8Tiling(ChooseFp8Tiling({.n = shape.n, .k = shape.k, .num_rows = batch},
                                                 stream_.num_multiprocessors));
      }
    }
  }
}

TEST_F(Fp8SchedulesCudaTest, TilingsAndMultiprocessorsChangeNoBit) {
  for (const Fp8ScaleLayout layout : kFp8Layouts) {
    for (const Fp8Shape& shape : {Fp8Shape{1048, 1024}, {200, 576}, {49, 144}, {400, 4096}}) {
      const TestWeights weights(shape, layout);
      const TestRows rows(300, shape.k, Distribution::kGaussian);
      for (const int64_t num_rows : {1, 8, 9, 33, 65, 128, 129, 300}) {
        const TestCodes codes = Quantized(rows, 0, num_rows, shape.k);
        const std::vector<float> expected = Product(codes, weights);
        ASSERT_TRUE(IsFinite(expected));
        const Fp8Problem problem = {.n = shape.n, .k = shape.k, .num_rows = num_rows};
        for (const Fp8Tiling& tiling : AllTilings(problem)) {
          for (const int multiprocessors : {2, 6, stream_.num_multiprocessors}) {
            const int before = stream_.num_multiprocessors;
            stream_.num_multiprocessors = multiprocessors;
            const std::vector<float> actual = Product(codes, weights, tiling);
            stream_.num_multiprocessors = before;
            ASSERT_TRUE(IsSameBits(actual, expected))
                << NameOf(layout) << ", " << shape.n << " x " << shape.k << ", " << num_rows
                << " rows, tiles " << DescribeFp8Tiling(tiling) << ", " << multiprocessors
                << " multiprocessors";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
