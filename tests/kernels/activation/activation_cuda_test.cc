#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/activation/gelu.h"
#include "kernels/activation/swiglu.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/activation/gelu_reference.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using testing::DeviceArray;

class ActivationCudaTest : public testing::CudaTest {
 protected:
  std::vector<BFloat16> RunSwiGlu(std::span<const BFloat16> gate_up, int64_t num_rows) const {
    const DeviceArray<BFloat16> device_gate_up(gate_up), output(gate_up.size() / 2);
    EXPECT_THAT(SwiGlu(stream_, {.gate_up = device_gate_up.data(),
                                 .output = output.data(),
                                 .num_rows = num_rows,
                                 .size = static_cast<int64_t>(gate_up.size()) / 2 / num_rows}),
                IsOk());
    std::vector<BFloat16> result = output.Read();
    output.ExpectGuardsIntact();
    return result;
  }
  std::vector<BFloat16> RunGelu(const std::vector<BFloat16>& input, GeluForm form) const {
    const DeviceArray<BFloat16> device_input(input), output(input.size());
    EXPECT_THAT(Gelu(stream_, {.input = device_input.data(),
                               .output = output.data(),
                               .num_rows = 1,
                               .size = static_cast<int64_t>(input.size()),
                               .form = form}),
                IsOk());
    std::vector<BFloat16> result = output.Read();
    output.ExpectGuardsIntact();
    return result;
  }
};

TEST_F(ActivationCudaTest, SwiGluIsCloseToTheReference) {
  for (const Distribution distribution : {Distribution::kGaussian, Distribution::kOutliers}) {
    for (const int64_t num_rows : {1, 3, 37}) {
      for (const int64_t size : {8, 1536, 2048, 12288}) {
        const std::vector<BFloat16> gate_up =
            RandomBFloat16s(static_cast<size_t>(num_rows * 2 * size), 1, distribution);
        std::vector<double> expected, tolerances;
        for (int64_t row = 0; row < num_rows; ++row) {
          const BFloat16* gate = gate_up.data() + row * 2 * size;
          for (int64_t i = 0; i < size; ++i) {
            const double x = ToFloat(gate[i]);
            expected.push_back(x / (1.0 + std::exp(-x)) * ToFloat(gate[size + i]));
            tolerances.push_back(std::abs(expected.back()) * (0x1p-8 + 0x1p-16) + 0x1p-120);
          }
        }
        EXPECT_TRUE(IsWithin(ToFloats(RunSwiGlu(gate_up, num_rows)), expected, tolerances))
            << num_rows << " x " << size;
      }
    }
  }
}

TEST_F(ActivationCudaTest, SwiGluBitsDoNotDependOnTheNumberOfRows) {
  constexpr size_t kRows = 33, kSize = 3072;
  const std::vector<BFloat16> gate_up =
      RandomBFloat16s(kRows * 2 * kSize, 1, Distribution::kOutliers);
  const std::vector<BFloat16> all = RunSwiGlu(gate_up, kRows);
  for (const size_t row : {size_t{0}, size_t{17}, kRows - 1}) {
    EXPECT_TRUE(IsSameBits(RunSwiGlu(std::span(gate_up).subspan(row * 2 * kSize, 2 * kSize), 1),
                           std::span(all).subspan(row * kSize, kSize)));
  }
}

TEST_F(ActivationCudaTest, GeluIsCloseToTheReferenceOnEveryFiniteInput) {
  const std::vector<BFloat16> input = testing::EveryFiniteBFloat16();
  for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
    EXPECT_TRUE(testing::IsGelu(RunGelu(input, form), input, form));
  }
}

TEST_F(ActivationCudaTest, NanStays) {
  std::vector<BFloat16> input = RandomBFloat16s(32, 1);
  input[3] = ToBFloat16(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(ToFloat(RunGelu(input, GeluForm::kTanh)[3])));
  EXPECT_TRUE(std::isnan(ToFloat(RunGelu(input, GeluForm::kErf)[3])));
  const std::vector<BFloat16> gated = RunSwiGlu(input, 1);
  EXPECT_TRUE(std::isnan(ToFloat(gated[3])));
  EXPECT_FALSE(std::isnan(ToFloat(gated[2])));
}

TEST_F(ActivationCudaTest, AnUnfitSizeIsAnError) {
  EXPECT_EQ(SwiGlu(stream_, {.num_rows = 1, .size = 12}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Gelu(stream_, {.num_rows = 1, .size = 12}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::kernels
