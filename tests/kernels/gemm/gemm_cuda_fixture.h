#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_launch.h"
#include "kernels/gemm/tile/gemm_tiling.h"
#include "tests/kernels/gemm/gemm_cuda_operands.h"
#include "tests/support/cuda_test.h"

namespace lockstep::kernels {

inline std::string Describe(const GemmTiling& tiling) {
  return fmt::format("tiles of {} weight and {} input rows by {}, {} stages{}", tiling.weight_rows,
                     tiling.input_rows,
                     tiling.unit == GemmUnit::kSwapped ? "a swapped warpgroup" : "warpgroups",
                     tiling.num_stages, tiling.held_input_blocks > 0 ? ", input held" : "");
}

class GemmCudaTest : public ::lockstep::testing::CudaTest {
 protected:
  auto Own() const {
    return [this](const GemmParams& params) { return Gemm(stream_, params); };
  }
  auto Chain() const {
    return [this](const GemmParams& params) { return LaunchReferenceGemm(stream_, params); };
  }
  auto Tiled(const GemmTiling& tiling, GemmEpilogue epilogue = GemmEpilogue::kPlain) const {
    return [this, tiling, epilogue](const GemmParams& params) {
      return LaunchGemm(stream_, params, epilogue, tiling);
    };
  }
};

}  // namespace lockstep::kernels
