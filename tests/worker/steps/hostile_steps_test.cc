#include <gtest/gtest.h>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/random_steps.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::worker {
namespace {

using ::lockstep::testing::FakeModelOptions;

// Whatever a router sends, a step is either refused whole or executed; the model checks every batch
// that reaches it. A place in the pool may be read before anything was written to it (the router
// says what is computed), which the fake model would take for a bug of ours: it is written once up
// front.
class HostileStepsTest : public ::testing::TestWithParam<bool> {};

TEST_P(HostileStepsTest, NeverCrashAndLeaveTheExecutorUsable) {
  const bool with_window = GetParam();
  for (const uint64_t seed : {1, 2, 3}) {
    lockstep::testing::FakeForwardModel model(with_window ? lockstep::testing::FakeModelWithWindow()
                                                          : FakeModelOptions());
    model.WriteEveryPlace();
    CpuStepRunner executor(model, {.max_slots = 8}, /*incarnation=*/1);
    executor.BeginLease(1);
    lockstep::testing::RandomSteps steps(/*epoch=*/1, seed, /*rows_collide=*/true, with_window);
    int num_refused = 0, num_sampled = 0;
    for (int i = 0; i < 4000; ++i) {
      v1::StepResult result;
      executor.Execute(steps.Next(), &result);
      num_refused += result.has_refusal() ? 1 : 0;
      num_sampled += result.token_ids_size();
      if (result.has_refusal()) {
        ASSERT_NE(result.refusal().code(), 0u);
        ASSERT_FALSE(result.refusal().message().empty());
        ASSERT_EQ(result.sampled_slots_size(), 0);
      }
      steps.Observe(result);
    }
    // Both kinds happen often enough to mean something.
    EXPECT_GT(num_refused, 400);
    EXPECT_GT(num_sampled, 400);
  }
}

INSTANTIATE_TEST_SUITE_P(KvGroups, HostileStepsTest, ::testing::Bool(),
                         [](const auto& with_window) { return with_window.param ? "Two" : "One"; });

}  // namespace
}  // namespace lockstep::worker
