// Products with an activation in their epilogue: the bits of two kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/activation/gelu.h"
#include "kernels/activation/swiglu.h"
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

class GemmSwiGluCudaTest : public GemmCudaTest {
 protected:
  // Gemm, then SwiGlu, as two kernels.
  std::vector<BFloat16> Unfused(const GemmOperands& operands, int64_t num_rows) const {
    const int64_t size = operands.n / 2;
    DeviceArray<BFloat16> product(static_cast<size_t>(num_rows * operands.n));
    DeviceArray<BFloat16> output(static_cast<size_t>(num_rows * size));
    GemmParams params = operands.Params(0, num_rows);
    params.output = product.data();
    EXPECT_THAT(Gemm(stream_, params), IsOk());
    EXPECT_THAT(SwiGlu(stream_, {.gate_up = product.data(),
                                 .output = output.data(),
                                 .num_rows = num_rows,
                                 .size = size}),
                IsOk());
    return output.Read();
  }
  GemmParams FusedParams(const GemmOperands& operands, int64_t num_rows) const {
    GemmParams params = operands.Params(0, num_rows);
    params.output_stride = operands.n / 2;
    return params;
  }
};

TEST_F(GemmSwiGluCudaTest, HasTheBitsOfTwoKernels) {
  for (const auto& [n, k] :
       {std::pair<int64_t, int64_t>{3072, 576}, {6144, 1024}, {80, 64}, {96, 328}}) {
    const GemmOperands operands(150, n, k, Distribution::kGaussian);
    for (const int64_t num_rows : {1, 8, 9, 16, 17, 24, 30, 64, 100, 150}) {
      const auto fused = [this](const GemmParams& params) { return GemmSwiGlu(stream_, params); };
      EXPECT_TRUE(IsSameBits(OutputBFloat16(FusedParams(operands, num_rows), fused),
                             Unfused(operands, num_rows)))
          << num_rows << " rows, n = " << n;
    }
  }
}

TEST_F(GemmSwiGluCudaTest, EveryTilingGivesTheSameBits) {
  for (const auto& [num_rows, k] : {std::pair<int64_t, int64_t>{1, 512},
                                    {1, 328},
                                    {5, 320},
                                    {5, 328},
                                    {100, 320},
                                    {100, 328}}) {
    const GemmOperands operands(num_rows, 1040, k, Distribution::kGaussian);
    const std::vector<BFloat16> expected = Unfused(operands, num_rows);
    for (const GemmTiling& tiling : CompiledTilings(num_rows, k, GemmEpilogue::kSwiGlu)) {
      SCOPED_TRACE(::testing::Message()
                   << num_rows << " rows, k " << k << ", " << Describe(tiling));
      const GemmParams params = FusedParams(operands, num_rows);
      const auto run = Tiled(tiling, GemmEpilogue::kSwiGlu);
      EXPECT_TRUE(IsSameBits(OutputBFloat16(params, run), expected));
    }
  }
}

class GemmGeluCudaTest : public GemmCudaTest, public ::testing::WithParamInterface<GeluForm> {
 protected:
  GemmEpilogue Epilogue() const {
    return GetParam() == GeluForm::kTanh ? GemmEpilogue::kGeluTanh : GemmEpilogue::kGeluErf;
  }
  // Gemm, then Gelu, as two kernels.
  std::vector<BFloat16> Unfused(const GemmOperands& operands) const {
    const size_t count = static_cast<size_t>(operands.m * operands.n);
    DeviceArray<BFloat16> product(count);
    DeviceArray<BFloat16> output(count);
    GemmParams params = operands.Params(0, operands.m, /*with_bias=*/true);
    params.output = product.data();
    EXPECT_THAT(Gemm(stream_, params), IsOk());
    EXPECT_THAT(Gelu(stream_, {.input = product.data(),
                               .output = output.data(),
                               .num_rows = operands.m,
                               .size = operands.n,
                               .form = GetParam()}),
                IsOk());
    return output.Read();
  }
};

TEST_P(GemmGeluCudaTest, HasTheBitsOfTwoKernels) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{3072, 768}, {1024, 80}, {8, 64}}) {
    for (const int64_t num_rows : {1, 3, 8, 16}) {
      const GemmOperands operands(num_rows, n, k, Distribution::kOutliers);
      const auto fused = [this](const GemmParams& params) {
        return GemmGelu(stream_, params, GetParam());
      };
      EXPECT_TRUE(
          IsSameBits(OutputBFloat16(operands.Params(0, num_rows, /*with_bias=*/true), fused),
                     Unfused(operands)))
          << num_rows << " rows, n = " << n;
    }
  }
}

TEST_P(GemmGeluCudaTest, EveryTilingGivesTheSameBits) {
  for (const int64_t num_rows : {1, 5, 16}) {
    const GemmOperands operands(num_rows, 1032, 512, Distribution::kGaussian);
    const std::vector<BFloat16> expected = Unfused(operands);
    for (const GemmTiling& tiling : CompiledTilings(num_rows, operands.k, Epilogue())) {
      EXPECT_TRUE(IsSameBits(OutputBFloat16(operands.Params(0, num_rows, /*with_bias=*/true),
                                            Tiled(tiling, Epilogue())),
                             expected))
          << num_rows << " rows, " << Describe(tiling);
    }
  }
}

TEST_P(GemmGeluCudaTest, RefusesManyRowsAndAnOutputInF32) {
  const GemmOperands operands(17, 16, 16, Distribution::kGaussian);
  DeviceArray<BFloat16> rounded(17 * 16);
  GemmParams many = operands.Params(0, 17);
  many.output = rounded.data();
  EXPECT_EQ(GemmGelu(stream_, many, GetParam()).code(), absl::StatusCode::kInvalidArgument);
  GemmParams params = operands.Params(0, 1);
  DeviceArray<float> output(16);
  params.output_f32 = output.data();
  EXPECT_EQ(GemmGelu(stream_, params, GetParam()).code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Forms, GemmGeluCudaTest,
                         ::testing::Values(GeluForm::kTanh, GeluForm::kErf));

}  // namespace
}  // namespace lockstep::kernels
