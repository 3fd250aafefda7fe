#include <gtest/gtest.h>

#include <memory>

#include "kernels/gemm/plan/cuda_gemm.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/gemm/gemm_cuda_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

// Linked with lockstep_kernels_gemm_cuda_planted: our kernel splits K when there are few rows, and
// cuBLASLt may split it. What every worker runs at start must find both.
namespace lockstep::kernels {
namespace {

using lockstep::testing::CudaTest;
using lockstep::testing::GemmOperands;
using lockstep::testing::OutputF32;

class CudaGemmPlantedTest : public CudaTest {};

TEST_F(CudaGemmPlantedTest, PreparingFindsThePlantedSplitOfK) {
  const absl::StatusOr<std::unique_ptr<CudaGemm>> gemm = CudaGemm::Create();
  ASSERT_THAT(gemm, IsOk());
  EXPECT_THAT((*gemm)->Prepare(stream_, {.n = 1024, .k = 12288, .max_rows = 128}),
              HasError(absl::StatusCode::kInternal, ::testing::HasSubstr("k = 12288 and 1 rows")));
  EXPECT_GT((*gemm)->num_refused_plans(), 0);
}

TEST_F(CudaGemmPlantedTest, ARowAloneDiffersFromTheSameRowAmongOthers) {
  const GemmOperands operands(8, 1024, 4096, Distribution::kOutliers);
  const auto run = [this](const GemmParams& params) { return Gemm(stream_, params); };
  const std::vector<float> together = OutputF32(operands.Params(0, 8), run);
  EXPECT_FALSE(IsSameBits(OutputF32(operands.Params(0, 1), run),
                          std::span(together).first(static_cast<size_t>(operands.n))));
}

}  // namespace
}  // namespace lockstep::kernels
