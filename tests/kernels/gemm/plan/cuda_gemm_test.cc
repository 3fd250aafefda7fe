#include "kernels/gemm/plan/cuda_gemm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.h"
#include "kernels/gemm/plan/gemm_trial.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/gemm/gemm_cuda_operands.h"
#include "tests/support/cuda_test.h"
#include "tests/support/tensor_compare.h"

namespace lockstep::kernels {
namespace {

using lockstep::testing::CudaTest;
using lockstep::testing::DeviceArray;
using lockstep::testing::GemmOperands;
using lockstep::testing::OutputBFloat16;
using lockstep::testing::OutputF32;

TEST(GemmTrialTest, AShortageOfMemoryNamesTheProduct) {
  const auto trial = GemmTrial::Create({}, {.n = 1 << 30, .k = 1 << 28, .max_rows = 64});
  EXPECT_THAT(Message(trial.status()),
              ::testing::HasSubstr(
                  "self-check of a product of 1073741824 x 268435456 with up to 64 rows: "));
}

class CudaGemmTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    absl::StatusOr<std::unique_ptr<CudaGemm>> gemm = CudaGemm::Create();
    ASSERT_THAT(gemm, IsOk());
    gemm_ = *std::move(gemm);
  }
  auto Prepared() const {
    return [this](const GemmParams& params) { return gemm_->Run(stream_, params); };
  }
  auto Alone() const {
    return [this](const GemmParams& params) { return Gemm(stream_, params); };
  }

  std::unique_ptr<CudaGemm> gemm_;
};

TEST_F(CudaGemmTest, KeepsConformingPlansAndRefusesNoneOfThem) {
  ASSERT_THAT(gemm_->Prepare(stream_, {.n = 4096, .k = 4096, .max_rows = 1024}), IsOk());
  EXPECT_GT(gemm_->num_plans(), 0);
  EXPECT_EQ(gemm_->num_refused_plans(), 0);
}

TEST_F(CudaGemmTest, BitsDoNotDependOnTheNumberOfRowsOrWhoseKernelRuns) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{2048, 4096}, {520, 1536}}) {
    ASSERT_THAT(gemm_->Prepare(stream_, {.n = n, .k = k, .max_rows = 512}), IsOk());
    const GemmOperands operands(512, n, k, Distribution::kOutliers);
    std::vector<BFloat16> alone;
    for (int64_t row = 0; row < operands.m; ++row) {
      const std::vector<BFloat16> values = OutputBFloat16(operands.Params(row, 1), Prepared());
      alone.insert(alone.end(), values.begin(), values.end());
    }
    for (const int64_t num_rows :
         {2, 5, 33, 64, 65, 66, 100, 128, 129, 200, 255, 256, 257, 384, 511, 512}) {
      for (const int64_t first_row : {int64_t{0}, operands.m - num_rows}) {
        EXPECT_TRUE(
            IsSameBits(OutputBFloat16(operands.Params(first_row, num_rows), Prepared()),
                       std::span<const BFloat16>(alone).subspan(static_cast<size_t>(first_row * n),
                                                                static_cast<size_t>(num_rows * n))))
            << num_rows << " rows from " << first_row << ", n = " << n;
      }
    }
  }
}

TEST_F(CudaGemmTest, BiasAndF32OutputsHaveTheSameBitsAsOurKernel) {
  constexpr int64_t kMaxRows = 256;
  const GemmOperands operands(kMaxRows, 1000, 1024, Distribution::kOutliers);
  for (const bool has_bias : {false, true}) {
    for (const bool f32_output : {false, true}) {
      ASSERT_THAT(gemm_->Prepare(stream_, {.n = operands.n,
                                           .k = operands.k,
                                           .has_bias = has_bias,
                                           .f32_output = f32_output,
                                           .max_rows = kMaxRows}),
                  IsOk());
      for (const int64_t num_rows : {1, 65, 200, 256}) {
        const GemmParams params = operands.Params(0, num_rows, has_bias);
        SCOPED_TRACE(::testing::Message() << num_rows << " rows, bias " << has_bias);
        if (f32_output) {
          EXPECT_TRUE(IsSameBits(OutputF32(params, Prepared()), OutputF32(params, Alone())));
        } else {
          EXPECT_TRUE(
              IsSameBits(OutputBFloat16(params, Prepared()), OutputBFloat16(params, Alone())));
        }
      }
    }
  }
}

TEST_F(CudaGemmTest, ShapesThatWereNotPreparedRunOnOurKernel) {
  const GemmOperands operands(130, 70, 64, Distribution::kGaussian);
  const GemmParams params = operands.Params(0, operands.m);
  EXPECT_TRUE(IsSameBits(OutputF32(params, Prepared()), OutputF32(params, Alone())));
  EXPECT_EQ(gemm_->num_plans(), 0);
}

TEST_F(CudaGemmTest, RefusesOperandsThatTheCopyEngineCannotRead) {
  using ::testing::HasSubstr;
  const GemmOperands operands(2, 16, 32, Distribution::kGaussian);
  DeviceArray<BFloat16> output(2 * 16);
  GemmParams good = operands.Params(0, 2);
  good.output = output.data();
  ASSERT_THAT(gemm_->Run(stream_, good), IsOk());
  constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
  GemmParams bad = good;
  bad.weights.k = 28;
  EXPECT_THAT(gemm_->Run(stream_, bad), HasError(kInvalid, HasSubstr("16 x 28")));
  bad = good;
  bad.input_stride = 33;
  EXPECT_THAT(gemm_->Run(stream_, bad), HasError(kInvalid, HasSubstr("stride 33")));
  bad = good;
  ++bad.input;
  EXPECT_THAT(gemm_->Run(stream_, bad), HasError(kInvalid, HasSubstr("aligned")));
  bad = good;
  bad.output = nullptr;
  EXPECT_THAT(gemm_->Run(stream_, bad), HasError(kInvalid, HasSubstr("outputs")));
  bad = good;
  bad.weights.n = 15;
  EXPECT_THAT(GemmSwiGlu(stream_, bad), HasError(kInvalid, HasSubstr("15 weight rows")));
}

}  // namespace
}  // namespace lockstep::kernels
