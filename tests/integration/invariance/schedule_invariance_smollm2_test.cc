// The schedule-invariance test on a real model; see schedule_invariance_test.cc.
#include <gtest/gtest.h>

#include "tests/integration/invariance/invariance_check.h"

namespace lockstep::testing {
namespace {

TEST(ScheduleInvariance, SmolLM2) {
  ModelCase smollm2;
  smollm2.name = "SmolLM2-135M-Instruct";
  smollm2.path = ".models/SmolLM2-135M-Instruct.Q4_1.gguf";
  smollm2.num_blocks = 256;
  smollm2.shape.max_prompt_tokens = 44;
  smollm2.shape.max_new_tokens = 76;
  smollm2.shape.stop_token_ids = {0, 2};
  smollm2.num_threads = 2;
  smollm2.num_restarts = 3;
  smollm2.min_blocks = 12;
  CheckInvariance(smollm2, /*expect_differences=*/false);
}

}  // namespace
}  // namespace lockstep::testing
