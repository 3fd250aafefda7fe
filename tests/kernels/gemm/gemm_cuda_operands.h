#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_launch.h"
#include "kernels/gemm/tile/gemm_tiling.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::testing {

// Operands of one product on the device, with NaN wherever nothing may be read: behind every row of
// the input, behind its last row, and around every array.
class GemmOperands {
 public:
  static constexpr int64_t kInputPadding = 8;

  GemmOperands(int64_t m, int64_t n, int64_t k, Distribution distribution)
      : m(m),
        n(n),
        k(k),
        input_values(RandomBFloat16s(static_cast<size_t>(m * k), 1, distribution)),
        weight_values(RandomBFloat16s(static_cast<size_t>(n * k), 2, distribution)),
        bias_values(RandomFloats(static_cast<size_t>(n), 3, distribution)),
        input_(static_cast<size_t>(m * (k + kInputPadding))),
        weights_(weight_values),
        bias_(bias_values) {
    WriteInput();
  }

  void WriteInput() {
    const kernels::BFloat16 nan = kernels::ToBFloat16(std::numeric_limits<float>::quiet_NaN());
    std::vector<kernels::BFloat16> padded;
    for (int64_t row = 0; row < m; ++row) {
      const auto begin = input_values.begin() + row * k;
      padded.insert(padded.end(), begin, begin + k);
      padded.insert(padded.end(), kInputPadding, nan);
    }
    input_.Write(padded);
  }

  // Rows [first_row, first_row + num_rows), without an output yet.
  kernels::GemmParams Params(int64_t first_row, int64_t num_rows, bool with_bias = false) const {
    return {.input = input_.data() + first_row * (k + kInputPadding),
            .input_stride = k + kInputPadding,
            .weights = {.data = weights_.data(), .n = n, .k = k},
            .bias = with_bias ? bias_.data() : nullptr,
            .output_stride = n,
            .num_rows = num_rows};
  }

  int64_t m;
  int64_t n;
  int64_t k;
  std::vector<kernels::BFloat16> input_values;
  std::vector<kernels::BFloat16> weight_values;
  std::vector<float> bias_values;

 private:
  DeviceArray<kernels::BFloat16> input_;
  DeviceArray<kernels::BFloat16> weights_;
  DeviceArray<float> bias_;
};

// Every tiling that is compiled and can serve this many rows, with the fewest stages and with more.
// A single row also comes held.
inline std::vector<kernels::GemmTiling> CompiledTilings(int64_t num_rows, int64_t k,
                                                        kernels::GemmEpilogue epilogue) {
  std::vector<kernels::GemmTiling> tilings;
  using kernels::GemmUnit;
  for (const GemmUnit unit : {GemmUnit::kSwapped, GemmUnit::kWarpgroup}) {
    for (const int input_rows : {8, 16, 32, 64, 128, 192, 256}) {
      for (int weight_rows = 16; weight_rows <= 256; weight_rows += 8) {
        kernels::GemmTiling tiling = {
            .unit = unit, .weight_rows = weight_rows, .input_rows = input_rows};
        if (kernels::FindGemmKernel(tiling, epilogue).function == nullptr) continue;
        const int held_blocks =
            kernels::GemmHeldInputBlocks(tiling, {.k = k, .num_rows = num_rows});
        for (const int blocks : std::set<int>{0, held_blocks}) {
          tiling.held_input_blocks = blocks;
          for (const int64_t ring_bytes : {1, 100 * 1024}) {
            tiling.num_stages = kernels::GemmStages(tiling, num_rows, ring_bytes);
            tilings.push_back(tiling);
          }
        }
      }
    }
  }
  return tilings;
}

// fp32 outputs of an implementation `run(params)`, whose surroundings stay untouched.
template <typename Implementation>
std::vector<float> OutputF32(kernels::GemmParams params, const Implementation& run) {
  DeviceArray<float> output(static_cast<size_t>(params.num_rows * params.output_stride));
  params.output_f32 = output.data();
  EXPECT_THAT(run(params), IsOk());
  std::vector<float> values = output.Read();
  output.ExpectGuardsIntact();
  return values;
}

template <typename Implementation>
std::vector<kernels::BFloat16> OutputBFloat16(kernels::GemmParams params,
                                              const Implementation& run) {
  DeviceArray<kernels::BFloat16> output(
      static_cast<size_t>(params.num_rows * params.output_stride));
  params.output = output.data();
  EXPECT_THAT(run(params), IsOk());
  std::vector<kernels::BFloat16> values = output.Read();
  output.ExpectGuardsIntact();
  return values;
}

}  // namespace lockstep::testing
