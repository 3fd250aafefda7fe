#include <gtest/gtest.h>

#include "kernels/gemm/self_check.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/core/instruction_sets.h"

// Linked with lockstep_kernels_gemm_planted, whose kernel splits K when there are few rows: the
// check that every worker runs at start must find it.
namespace lockstep::kernels {
namespace {

class GemmPlantedTest : public ::testing::TestWithParam<InstructionSet> {};

TEST_P(GemmPlantedTest, SelfCheckFindsThePlantedSplitOfK) {
  const Stream stream = {.instruction_set = GetParam()};
  EXPECT_THAT(CheckGemmSchedule(stream, 576),
              HasError(absl::StatusCode::kInternal, ::testing::HasSubstr("k = 576")));
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, GemmPlantedTest, EveryInstructionSet(),
                         InstructionSetTestName);

}  // namespace
}  // namespace lockstep::kernels
