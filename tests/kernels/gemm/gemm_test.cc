#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/gemm/packed_matrix.h"
#include "kernels/gemm/self_check.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kInputPadding = 6;   // elements behind each row of the input
constexpr int64_t kOutputPadding = 3;  // and of the output

struct Shape {
  int64_t m;
  int64_t n;
  int64_t k;
};

// Operands of one multiplication, with NaN wherever nothing may be read.
struct Problem {
  Problem(const Shape& shape, Distribution distribution) : shape(shape) {
    const std::vector<float> values =
        RandomFloats(static_cast<size_t>(shape.m * shape.k), 1, distribution);
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t i = 0; i < shape.k; ++i) {
        input.push_back(ToBFloat16(values[static_cast<size_t>(row * shape.k + i)]));
      }
      input.insert(input.end(), kInputPadding, ToBFloat16(kNaN));
    }
    weights = ToFloats(RandomBFloat16s(static_cast<size_t>(shape.n * shape.k), 2, distribution));
    packed.resize(static_cast<size_t>(PackedElements(shape.n, shape.k)));
    PackRows(weights.data(), 0, shape.n, shape.k, packed.data());
    const int64_t padded_n = NumPanels(shape.n) * kPanelOutputs;
    const std::vector<float> poison(static_cast<size_t>((padded_n - shape.n) * shape.k), kNaN);
    PackRows(poison.data(), shape.n, padded_n - shape.n, shape.k, packed.data());
    bias = RandomFloats(static_cast<size_t>(shape.n), 3, distribution);
  }

  GemmParams Params(int64_t first_row, int64_t num_rows) const {
    return {.input = input.data() + first_row * (shape.k + kInputPadding),
            .input_stride = shape.k + kInputPadding,
            .weights = {.data = packed.data(), .n = shape.n, .k = shape.k},
            .bias = bias.data(),
            .output_stride = shape.n,
            .num_rows = num_rows};
  }

  // fp32 outputs of rows [first_row, first_row + num_rows), computed in one call.
  std::vector<float> Run(const Stream& stream, int64_t first_row, int64_t num_rows) const {
    std::vector<float> output(static_cast<size_t>(num_rows * shape.n));
    GemmParams params = Params(first_row, num_rows);
    params.output_f32 = output.data();
    EXPECT_THAT(Gemm(stream, params), IsOk());
    return output;
  }

  Shape shape;
  std::vector<BFloat16> input;
  std::vector<float> weights;
  std::vector<BFloat16> packed;
  std::vector<float> bias;
};

struct Reference {
  std::vector<double> values;
  std::vector<double> tolerance;
};

// fp64, and the bound on the error of k products summed in fp32: (k + 1) roundings of at most half
// a unit each, relative to the sum of magnitudes.
Reference ComputeReference(const Problem& problem) {
  Reference reference;
  const auto [m, n, k] = problem.shape;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t output = 0; output < n; ++output) {
      double sum = problem.bias[static_cast<size_t>(output)];
      double magnitude = std::abs(sum);
      for (int64_t i = 0; i < k; ++i) {
        const double product =
            static_cast<double>(
                ToFloat(problem.input[static_cast<size_t>(row * (k + kInputPadding) + i)])) *
            problem.weights[static_cast<size_t>(output * k + i)];
        sum += product;
        magnitude += std::abs(product);
      }
      reference.values.push_back(sum);
      reference.tolerance.push_back(static_cast<double>(k + 1) * 0x1p-24 * magnitude);
    }
  }
  return reference;
}

class GemmTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  Stream Alone() const { return {.instruction_set = GetParam()}; }
};

TEST_P(GemmTest, IsCloseToTheReference) {
  const Shape shapes[] = {{1, 1, 2},    {1, 33, 64},    {3, 7, 10},   {5, 96, 576},
                          {13, 65, 30}, {24, 160, 128}, {100, 40, 62}};
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
      const Problem problem(shape, distribution);
      const Reference reference = ComputeReference(problem);
      EXPECT_TRUE(
          IsWithin(problem.Run(Alone(), 0, shape.m), reference.values, reference.tolerance));
    }
  }
}

TEST_P(GemmTest, RoundsBf16OutputsOnceAfterTheBiasAndLeavesPaddingAlone) {
  const Shape shape = {9, 45, 64};
  Problem problem(shape, Distribution::kOutliers);
  problem.input[7] = ToBFloat16(kNaN);
  problem.input[static_cast<size_t>(shape.k + kInputPadding + 7)] = ToBFloat16(3e38f);
  const std::vector<float> exact = problem.Run(Alone(), 0, shape.m);
  const BFloat16 sentinel = ToBFloat16(-123.0f);
  std::vector<BFloat16> output(static_cast<size_t>(shape.m * (shape.n + kOutputPadding)), sentinel);
  GemmParams params = problem.Params(0, shape.m);
  params.output = output.data();
  params.output_stride = shape.n + kOutputPadding;
  ASSERT_THAT(Gemm(Alone(), params), IsOk());
  std::vector<BFloat16> expected;
  for (int64_t row = 0; row < shape.m; ++row) {
    for (int64_t i = 0; i < shape.n; ++i) {
      expected.push_back(ToBFloat16(exact[static_cast<size_t>(row * shape.n + i)]));
    }
    expected.insert(expected.end(), kOutputPadding, sentinel);
  }
  EXPECT_TRUE(IsSameBits(output, expected));
}

TEST_P(GemmTest, BitsDoNotDependOnTheNumberOfRows) {
  const Shape shape = {230, 70, 192};
  const Problem problem(shape, Distribution::kOutliers);
  std::vector<float> alone;
  for (int64_t row = 0; row < shape.m; ++row) {
    const std::vector<float> values = problem.Run(Alone(), row, 1);
    alone.insert(alone.end(), values.begin(), values.end());
  }
  for (const int64_t num_rows : {2, 3, 4, 7, 8, 12, 13, 25, 95, 97, 230}) {
    for (const int64_t first_row : {int64_t{0}, shape.m - num_rows}) {
      EXPECT_TRUE(IsSameBits(problem.Run(Alone(), first_row, num_rows),
                             std::span(alone).subspan(static_cast<size_t>(first_row * shape.n),
                                                      static_cast<size_t>(num_rows * shape.n))))
          << num_rows << " rows from " << first_row;
    }
  }
}

TEST_P(GemmTest, BitsDoNotDependOnTheNumberOfThreads) {
  for (const int64_t num_rows : {1, 6, 200}) {
    const Problem problem({num_rows, 300, 96}, Distribution::kGaussian);
    const std::vector<float> expected = problem.Run(Alone(), 0, num_rows);
    for (const int num_threads : {1, 2, 3, 5}) {
      ThreadPool threads(num_threads);
      const Stream stream = {.threads = &threads, .instruction_set = GetParam()};
      EXPECT_TRUE(IsSameBits(problem.Run(stream, 0, num_rows), expected))
          << num_rows << " rows, " << num_threads << " threads";
    }
  }
}

TEST_P(GemmTest, OneRowsNanStaysInItsRow) {
  Problem problem({14, 40, 64}, Distribution::kGaussian);
  const std::vector<float> before = problem.Run(Alone(), 0, 14);
  problem.input[static_cast<size_t>(5 * (64 + kInputPadding))] = ToBFloat16(kNaN);
  const std::vector<float> after = problem.Run(Alone(), 0, 14);
  EXPECT_TRUE(IsSameBits(std::span(after).first(5 * 40), std::span(before).first(5 * 40)));
  EXPECT_TRUE(IsSameBits(std::span(after).subspan(6 * 40), std::span(before).subspan(6 * 40)));
  EXPECT_TRUE(std::isnan(after[5 * 40]));
}

TEST_P(GemmTest, RefusesAnOddInnerSize) {
  const Problem problem({1, 4, 8}, Distribution::kGaussian);
  GemmParams params = problem.Params(0, 1);
  params.weights.k = 7;
  EXPECT_THAT(Gemm(Alone(), params),
              HasError(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("7")));
}

TEST_P(GemmTest, SelfCheckPasses) {
  ThreadPool threads(2);
  const Stream stream = {.threads = &threads, .instruction_set = GetParam()};
  for (const int64_t k : {2, 64, 576}) EXPECT_THAT(CheckGemmSchedule(stream, k), IsOk());
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, GemmTest, EveryInstructionSet(), InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
