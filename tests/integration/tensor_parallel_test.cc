// A request gives the same bits however many ranks compute it, under any schedule, and also if it
// moves from one degree of tensor parallelism to another in the middle. The planted build of this
// file (LOCKSTEP_EXPECT_DIFFERENCES) links a GEMM that splits K for the narrow matrices that ranks
// have, and must see differences.
#include <gtest/gtest.h>

#include <string>

#include "tests/common/temp_folder.h"
#include "tests/integration/invariance/invariance_check.h"
#include "tests/worker/model/divisible_shape.h"

namespace lockstep::testing {
namespace {

class TensorParallelInvariance : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorParallelInvariance, DegreesTakeTurns) {
  const TempFolder folder;
  worker::WriteDivisibleShape(GetParam(), folder.path());
  ModelCase model_case = TinyCase(GetParam());
  model_case.path = folder.path();
  model_case.random_weights = true;
  model_case.degrees = {1, 2, 3};
  model_case.num_restarts = 6;
  model_case.shape.num_requests = 100;
  CheckInvariance(model_case, kExpectDifferences);
}

INSTANTIATE_TEST_SUITE_P(Families, TensorParallelInvariance,
                         ::testing::Values("tiny-llama", "tiny-qwen3", "tiny-gpt2"),
                         [](const auto& info) {
                           return info.param.substr(std::string("tiny-").size());
                         });

}  // namespace
}  // namespace lockstep::testing
