// The promise of docs/numerics.md, tested: a request gives the same bits alone and under any schedule.
// The planted build of this file (LOCKSTEP_EXPECT_DIFFERENCES) links a GEMM that splits K when M is small
// and must see differences: it proves that the test can fail.
#include <gtest/gtest.h>

#include <string>

#include "tests/integration/invariance_check.h"

namespace lockstep::testing {
namespace {

#ifdef LOCKSTEP_EXPECT_DIFFERENCES
constexpr bool kExpectDifferences = true;
#else
constexpr bool kExpectDifferences = false;
#endif

ModelCase Tiny(const std::string& name) {
  ModelCase tiny;
  tiny.name = name;
  tiny.path = "tests/golden/" + name;
  tiny.num_blocks = 512;
  tiny.shape.max_prompt_tokens = 50;
  tiny.shape.max_new_tokens = 90;
  tiny.shape.stop_token_ids = {4};
  tiny.num_restarts = 4;
  tiny.min_blocks = 16;
  return tiny;
}

TEST(ScheduleInvariance, TinyLlama) { CheckInvariance(Tiny("tiny-llama"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyQwen2) { CheckInvariance(Tiny("tiny-qwen2"), kExpectDifferences); }
TEST(ScheduleInvariance, TinyQwen3) { CheckInvariance(Tiny("tiny-qwen3"), kExpectDifferences); }

}  // namespace
}  // namespace lockstep::testing
