#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "worker/cpu/load_model.h"

// Linked with lockstep_kernels_gemm_planted, whose kernel splits K when there are few rows.
namespace lockstep::worker {
namespace {

TEST(LoadModelPlantedTest, RefusesToServeWhenBitsDependOnTheBatch) {
  EXPECT_THAT(LoadCpuModel("tests/golden/tiny-llama", {.num_kv_blocks = 4}),
              HasError(absl::StatusCode::kInternal, ::testing::HasSubstr("GEMM self-check")));
}

TEST(LoadModelPlantedTest, TheTestOfTheTestMayLoadItAllTheSame) {
  EXPECT_THAT(LoadCpuModel("tests/golden/tiny-llama",
                           {.num_kv_blocks = 4, .check_reduction_contract = false}),
              IsOk());
}

}  // namespace
}  // namespace lockstep::worker
