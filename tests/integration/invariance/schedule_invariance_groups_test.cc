// The promise of docs/numerics.md with two KV groups: prefix hits, preemptions, restarts and lost
// workers change no bit, although blocks come back as soon as the window has left them. The model
// is a fake. It holds the KV entries of both groups, and aborts when a layer would read a place
// that does not hold the KV of its own text.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/integration/invariance/invariance_check.h"
#include "tests/support/fake_forward_model.h"

namespace lockstep::testing {
namespace {

constexpr uint32_t kNumBlocks = 512;

class ScheduleInvarianceGroups : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ScheduleInvarianceGroups, AWindowOf) {
  const uint32_t window_tokens = GetParam();
  FakeForwardModel model(
      {.max_step_tokens = 512,
       .max_logits_rows = 64,
       .block_size_tokens = 16,
       .num_blocks = kNumBlocks,
       .further_groups = {
           {.num_blocks = kNumBlocks, .window_tokens = window_tokens, .dtype = "none"}}});
  ModelCase model_case;
  model_case.name = "window of " + std::to_string(window_tokens);
  model_case.num_blocks = kNumBlocks;
  model_case.shape.max_prompt_tokens = 80;
  model_case.shape.max_new_tokens = 90;
  model_case.shape.stop_token_ids = {4};
  model_case.num_restarts = 4;
  model_case.min_blocks = 16;
  model_case.expect_pressure = window_tokens > 1;  // a block or two are enough for this one
  CheckInvarianceOf(OnExecutor(model), model_case, /*expect_differences=*/false);
}

INSTANTIATE_TEST_SUITE_P(Tokens, ScheduleInvarianceGroups, ::testing::Values(1, 20, 33, 64),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep::testing
