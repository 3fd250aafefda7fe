// Several samples of one prompt, and log-probabilities.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SchedulerSamplesTest : public SchedulerTest {
 protected:
  std::shared_ptr<Request> MakeSamples(RequestKey key, std::vector<TokenId> prompt,
                                       uint32_t num_samples, uint32_t max_new_tokens = 3) {
    auto request = MakeRequest(key, std::move(prompt), max_new_tokens);
    request->num_samples = num_samples;
    request->sampling.temperature = 1;
    return request;
  }
  void ExpectPromptLogprobs(const Request& request) {
    const std::vector<TokenLogprobs>& entries = prompt_logprobs.at(request.key);
    ASSERT_EQ(entries.size(), request.prompt_tokens.size() - 1);
    uint64_t hash = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      hash = ExtendTextHash(hash, request.prompt_tokens[i]);
      const TokenLogprobs expected = LogprobsOf(hash, request.prompt_tokens[i + 1]);
      EXPECT_EQ(entries[i].token, expected.token) << i;
      EXPECT_EQ(entries[i].logprob, expected.logprob) << i;
    }
  }
};

TEST_F(SchedulerSamplesTest, SiblingsWaitForTheFullBlocksOfThePrompt) {
  limits.max_step_tokens = 8;
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeSamples(1, TextOf(1, 14), 3);
  Submit(request);
  EXPECT_THAT(Plan()->started, SizeIs(1));
  EXPECT_THAT(Plan()->started, IsEmpty());
  EXPECT_THAT(Plan()->started, IsEmpty()) << "sample 0 decodes, but no result is there";
  Done();
  EXPECT_THAT(Plan()->started, IsEmpty()) << "two of three full blocks are published";
  Done();
  const StepPlan* plan = Plan();
  ASSERT_THAT(plan->started, SizeIs(2));
  for (const StartedSlot& started : plan->started) {
    EXPECT_EQ(started.num_computed_tokens, 12u);
    EXPECT_EQ(started.blocks[0].ids[2], plan->started[0].blocks[0].ids[2])
        << "full blocks are shared";
  }
  EXPECT_NE(plan->started[0].blocks[0].ids[3], plan->started[1].blocks[0].ids[3])
      << "the tail is not";
  RunUntilIdle();
  for (uint32_t i = 0; i < 3; ++i) ExpectComplete(*request, i);
  EXPECT_THAT(admitted, SizeIs(1));
}

TEST_F(SchedulerSamplesTest, APromptWithoutAFullBlockHasNothingToWaitFor) {
  Start();
  Submit(MakeSamples(1, TextOf(1, 4), 3));
  EXPECT_THAT(Plan()->started, SizeIs(3)) << "the last token of the only block is never shared";
  RunUntilIdle();
}

TEST_F(SchedulerSamplesTest, SiblingsThatBypassTheCacheDoNotWait) {
  limits.max_step_tokens = 100;
  Start();
  auto request = MakeSamples(1, TextOf(1, 14), 3);
  request->bypass_prefix_cache = true;
  Submit(request);
  EXPECT_THAT(Plan()->started, SizeIs(3));
  RunUntilIdle();
}

TEST_F(SchedulerSamplesTest, WhenTheFirstSampleFailsTheNextGoesAhead) {
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeSamples(1, TextOf(1, 9), 3);
  Submit(request);
  ASSERT_THAT(Plan()->started, SizeIs(1));
  Done({.failing_slot = planned.front().rows[0].slot});
  ASSERT_NE(Ending(1, 0), nullptr);
  const StepPlan* plan = Plan();
  ASSERT_THAT(plan->started, SizeIs(1));
  EXPECT_EQ(plan->started[0].sample_index, 1u);
  Done();
  EXPECT_EQ(Plan()->started[0].sample_index, 2u);
  RunUntilIdle();
  ExpectComplete(*request, 1);
  ExpectComplete(*request, 2);
}

TEST_F(SchedulerSamplesTest, SamplesCanBeStoppedBeforeTheyAreLetIn) {
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeSamples(1, TextOf(1, 9), 4);
  Submit(request);
  EXPECT_EQ(Stats().waiting_sequences, 4u);
  EXPECT_EQ(Stats().waiting_tokens, 9u) << "a prompt counts once";
  Stop(1, 1);
  Stop(1, 0);
  EXPECT_EQ(Stats().waiting_sequences, 2u);
  ASSERT_THAT(Plan()->started, SizeIs(1));
  EXPECT_EQ(planned.front().started[0].sample_index, 2u) << "the first that is left leads";
  Done();
  RunUntilIdle();
  EXPECT_EQ(Ending(1, 1)->num_generated_tokens, 0u);
  ExpectComplete(*request, 2);
  ExpectComplete(*request, 3);
}

TEST_F(SchedulerSamplesTest, AfterALostWorkerTheFirstGoesAheadAgain) {
  Start();
  auto request = MakeSamples(1, TextOf(1, 9), 3, 6);
  Submit(request);
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(Plan(), nullptr);
    Done();
  }
  EXPECT_EQ(Stats().running_sequences, 3u);
  DetachWorker();
  AttachWorker(limits);
  EXPECT_THAT(Plan()->started, SizeIs(1));
  RunUntilIdle();
  for (uint32_t i = 0; i < 3; ++i) ExpectComplete(*request, i);
}

TEST_F(SchedulerSamplesTest, OneSampleIsStoppedTheOthersGoOn) {
  Start();
  auto request = MakeSamples(1, TextOf(1, 3), 2, 8);
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Done();
  Stop(1, 0);
  Stop(1, 0);
  Stop(1, 7);
  Stop(8, 0);
  ASSERT_NE(Ending(1, 0), nullptr);
  EXPECT_EQ(Ending(1, 0)->reason, FinishReason::kStop);
  EXPECT_FALSE(Ending(1, 0)->stop_token.has_value());
  EXPECT_EQ(Ending(1, 0)->num_generated_tokens, 1u);
  RunUntilIdle();
  EXPECT_EQ(Tokens(1, 0).size(), 1u) << "what arrived later was dropped";
  ExpectComplete(*request, 1);
}

TEST_F(SchedulerSamplesTest, PromptLogprobsNeedTheWholePromptComputed) {
  limits.max_step_tokens = 5;
  Start();
  Submit(1, TextOf(1, 12), 1);
  RunUntilIdle();
  auto request = MakeRequest(2, TextOf(1, 12), 2);
  request->sampling.num_prompt_logprobs = 0;
  Submit(request);
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->started[0].num_computed_tokens, 0u);
  EXPECT_EQ(plan->started[0].first_prompt_logprob, 1u);
  RunUntilIdle();
  ExpectPromptLogprobs(*request);
  ExpectComplete(*request);
}

TEST_F(SchedulerSamplesTest, PromptLogprobsAreCollectedOnceForAllSamples) {
  config.max_steps_in_flight = 1;
  limits.max_step_tokens = 5;
  Start();
  auto request = MakeSamples(1, TextOf(1, 7), 2);
  request->sampling.num_prompt_logprobs = 0;
  Submit(request);
  EXPECT_THAT(Plan()->started, SizeIs(1));
  Done();
  EXPECT_THAT(Plan()->started, IsEmpty()) << "the log-probabilities are not complete";
  Done();
  const StepPlan* plan = Plan();
  ASSERT_THAT(plan->started, SizeIs(1));
  EXPECT_EQ(plan->started[0].first_prompt_logprob, 0u);
  EXPECT_EQ(plan->started[0].num_computed_tokens, 4u) << "the sibling may use the cache";
  RunUntilIdle();
  ExpectPromptLogprobs(*request);
}

TEST_F(SchedulerSamplesTest, PromptLogprobsSurviveTheLossOfTheirWorker) {
  config.max_steps_in_flight = 1;
  limits.max_step_tokens = 5;
  Start();
  auto request = MakeRequest(1, TextOf(1, 12), 2);
  request->sampling.num_prompt_logprobs = 0;
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  DetachWorker();
  AttachWorker(limits);
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->started[0].first_prompt_logprob, 6u) << "positions 1 to 5 are held";
  RunUntilIdle();
  ExpectPromptLogprobs(*request);
  ExpectComplete(*request);
}

TEST_F(SchedulerSamplesTest, WhenTheCollectorFailsTheNextSampleCollectsTheRest) {
  config.max_steps_in_flight = 1;
  limits.max_step_tokens = 5;
  Start();
  auto request = MakeSamples(1, TextOf(1, 12), 2);
  request->sampling.num_prompt_logprobs = 0;
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_NE(Plan(), nullptr);
  Done({.failing_slot = planned.front().rows[0].slot});
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->started[0].sample_index, 1u);
  EXPECT_EQ(plan->started[0].first_prompt_logprob, 6u);
  EXPECT_EQ(plan->started[0].num_computed_tokens, 4u) << "a hit may end just before the first one";
  RunUntilIdle();
  ExpectPromptLogprobs(*request);
  ExpectComplete(*request, 1);
}

TEST_F(SchedulerSamplesTest, APromptOfOneTokenHasNoLogprobsButAnEvent) {
  Start();
  auto request = MakeRequest(1, {1}, 1);
  request->sampling.num_prompt_logprobs = 3;
  Submit(request);
  EXPECT_EQ(Plan()->started[0].first_prompt_logprob, 0u);
  RunUntilIdle();
  EXPECT_THAT(prompt_logprobs.at(1), IsEmpty());
}

}  // namespace
}  // namespace lockstep::router::testing
