#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/fake_forward_model.h"
#include "tests/worker/steps/random_steps.h"
#include "tests/worker/steps/toy_drafters.h"
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

TEST(HostileDraftsTest, NeverCrash) {
  for (const uint64_t seed : {1, 2, 3}) {
    lockstep::testing::FakeForwardModel model;
    model.WriteEveryPlace();
    std::mt19937_64 random(seed);
    lockstep::testing::AnyDrafter drafter(
        [&random](const Slot&, uint32_t limit, std::vector<TokenId>& drafts) {
          for (uint64_t i = random() % (limit + 3); i > 0; --i) {
            drafts.push_back(static_cast<TokenId>(random() % 70));
          }
        });
    CpuStepRunner executor(model, {.max_slots = 8, .max_draft_tokens = 4}, /*incarnation=*/1,
                           &drafter);
    executor.BeginLease(1);
    lockstep::testing::RandomSteps steps(/*epoch=*/1, seed);
    steps.AddDraftLimits(4);
    int num_refused = 0, num_drafted = 0;
    for (int i = 0; i < 4000; ++i) {
      v1::StepResult result;
      executor.Execute(steps.Next(), &result);
      num_refused += result.has_refusal() ? 1 : 0;
      for (const uint32_t count : result.drafted_counts()) num_drafted += static_cast<int>(count);
      steps.Observe(result);
    }
    EXPECT_GT(num_refused, 400);
    EXPECT_GT(num_drafted, 30);
  }
}

}  // namespace
}  // namespace lockstep::worker
