// Outcomes that no plan allows: each is named, none is applied, and the lease is over.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kVocabSize = 1000;

class SchedulerContradictionTest : public SchedulerTest {
 protected:
  void StartRequest() {
    config.max_steps_in_flight = 2;
    limits.max_step_tokens = 6;
    Start();
    request_ = MakeRequest(1, TextOf(1, 8), 4);
    request_->sampling.num_logprobs = 0;
    request_->sampling.num_prompt_logprobs = 0;
    request_->sampling.stop_token_ids = {kEndToken};
    request_->sampling.min_new_tokens = 4;
    Submit(request_);
  }

  // The outcome of the step with this number is changed; the message of what is said to it.
  std::string Message(int step, const std::function<void(StepOutcome&)>& change) {
    StartRequest();
    for (int i = 1; i < step; ++i) {
      EXPECT_NE(Plan(), nullptr);
      Done();
    }
    EXPECT_NE(Plan(), nullptr);
    StepOutcome outcome = Execute();
    const size_t num_tokens = Tokens(1).size();
    change(outcome);
    const absl::Status status = Apply(outcome);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_EQ(Tokens(1).size(), num_tokens) << "nothing of a contradiction is applied";
    EXPECT_EQ(Plan(), nullptr) << "and nothing is planned after it";
    EXPECT_FALSE(Apply(outcome).ok());
    DetachWorker();
    AttachWorker(limits);
    RunUntilIdle();
    ExpectComplete(*request_);
    return lockstep::Message(status);
  }

  std::shared_ptr<Request> request_;
};

TEST_F(SchedulerContradictionTest, OfStepsAndSlots) {
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.step_id = 7; }),
              HasSubstr("step 7: a result, but step 1 is the oldest in flight"));
  EXPECT_THAT(Message(2, [](StepOutcome& o) { o.rows[0].slot = 5; }),
              HasSubstr("step 2: slot 5 was not part of it"));
  EXPECT_THAT(Message(2, [](StepOutcome& o) { o.rows[0].slot = 4000000000u; }),
              HasSubstr("slot 4000000000 was not part of it"));
  EXPECT_THAT(Message(2, [](StepOutcome& o) { o.rows.push_back(o.rows[0]); }),
              HasSubstr("slot 0 is reported twice"));
}

TEST_F(SchedulerContradictionTest, OfTokens) {
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows[0].tokens = {1}; }),
              HasSubstr("1 tokens kept, at most 0 were planned"));
  EXPECT_THAT(Message(2, [](StepOutcome& o) { o.rows[0].tokens.push_back(1); }),
              HasSubstr("2 tokens kept, at most 1 were planned"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows.clear(); }),
              HasSubstr("0 tokens kept, expected 1"));
  EXPECT_THAT(Message(3,
                      [](StepOutcome& o) {
                        o.rows[0].tokens = {kEndToken};
                        o.rows[0].logprobs[0].token = kEndToken;
                      }),
              HasSubstr("stop token 0 before min_tokens 4"));
}

TEST_F(SchedulerContradictionTest, OfEnds) {
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].stopped = StopCause::kLength; }),
              HasSubstr("stop cause 2 at 10 of 12 tokens"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].stopped = StopCause::kStopToken; }),
              HasSubstr("stop cause 1 at 10 of 12 tokens, the last one is not a stop token"));
  EXPECT_THAT(Message(5, [](StepOutcome& o) { o.rows[0].stopped = StopCause::kNone; }),
              HasSubstr("stop cause 0 at 12 of 12 tokens"));
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows[0].stopped = StopCause::kLength; }),
              HasSubstr("stop cause 2 at 8 of 12 tokens"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].was_inert = true; }),
              HasSubstr("the worker says it was inert, it was not"));
}

TEST_F(SchedulerContradictionTest, OfLogprobs) {
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].logprobs.clear(); }),
              HasSubstr("0 log-probabilities for 1 tokens, expected 1"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].logprobs[0].token = 99; }),
              HasSubstr("a log-probability is not of the token that was kept"));
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows[0].prompt_logprobs.pop_back(); }),
              HasSubstr("5 prompt log-probabilities from position 1, expected 6 from 1"));
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows[0].first_prompt_logprob = 2; }),
              HasSubstr("6 prompt log-probabilities from position 2, expected 6 from 1"));
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows[0].prompt_logprobs[2].token = 9; }),
              HasSubstr("the prompt log-probability at position 3 is of token 9"));
  EXPECT_THAT(Message(1, [](StepOutcome& o) { o.rows.clear(); }),
              HasSubstr("0 prompt log-probabilities from position 0, expected 6 from 1"));
}

TEST_F(SchedulerContradictionTest, OfIdsOutsideTheVocabulary) {
  limits.vocab_size = kVocabSize;
  EXPECT_THAT(Message(3,
                      [](StepOutcome& o) {
                        o.rows[0].tokens = {kVocabSize};
                        o.rows[0].logprobs[0].token = kVocabSize;
                      }),
              HasSubstr("token 1000 in a vocabulary of 1000"));
  EXPECT_THAT(Message(3,
                      [](StepOutcome& o) {
                        o.rows[0].tokens = {4294967295u};
                        o.rows[0].logprobs[0].token = 4294967295u;
                      }),
              HasSubstr("token 4294967295 in a vocabulary of 1000"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].logprobs[0].rank = kVocabSize + 1; }),
              HasSubstr("rank 1001 in a vocabulary of 1000"));
}

TEST_F(SchedulerContradictionTest, OfLogprobsThatNobodyAskedFor) {
  const auto add_top = [](TokenLogprobs& entry) { entry.top.assign(200'000, {1, -1.0f}); };
  EXPECT_THAT(Message(3, [&](StepOutcome& o) { add_top(o.rows[0].logprobs[0]); }),
              HasSubstr("200000 best tokens with their log-probabilities, 0 were asked for"));
  EXPECT_THAT(Message(1, [&](StepOutcome& o) { add_top(o.rows[0].prompt_logprobs[0]); }),
              HasSubstr("200000 best tokens with their log-probabilities, 0 were asked for"));
  EXPECT_THAT(Message(3, [](StepOutcome& o) { o.rows[0].logprobs[0].logprob = std::nanf(""); }),
              HasSubstr("a log-probability is not a number"));
}

TEST_F(SchedulerContradictionTest, OfBestTokensOutsideTheVocabulary) {
  limits.vocab_size = kVocabSize;
  Start();
  auto request = MakeRequest(1, TextOf(1, 3), 4);
  request->sampling.num_logprobs = 2;
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  StepOutcome outcome = Execute();
  outcome.rows[0].logprobs[0].top = {{1, -1.0f}, {kVocabSize, -2.0f}};
  EXPECT_THAT(lockstep::Message(Apply(outcome)), HasSubstr("token 1000 in a vocabulary of 1000"));
}

TEST_F(SchedulerContradictionTest, OfTokensAfterAnEnd) {
  config.max_decode_iterations = 4;
  limits.max_decode_iterations = 4;
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeRequest(1, TextOf(1, 3), 20);
  request->sampling.stop_token_ids = {77};
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_EQ(Plan()->decode_iterations, 4u);
  StepOutcome outcome = Execute();
  outcome.rows[0].tokens[1] = 77;
  EXPECT_THAT(lockstep::Message(Apply(outcome)), HasSubstr("tokens follow after its end"));
}

TEST_F(SchedulerContradictionTest, OfAnInertRowThatRuns) {
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeRequest(1, TextOf(1, 3), 20);
  request->sampling.stop_token_ids = {1, 2, 3};
  Submit(request);
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  Done();
  StepOutcome runs = Execute();
  runs.rows[0].was_inert = false;
  EXPECT_THAT(lockstep::Message(Apply(runs)), HasSubstr("it was inert, the worker ran it"));
}

TEST_F(SchedulerContradictionTest, OfAnInertRowThatStopsAgain) {
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeRequest(1, TextOf(1, 3), 20);
  request->sampling.stop_token_ids = {1, 2, 3};
  Submit(request);
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  Done();
  StepOutcome stops = Execute();
  stops.rows[0].stopped = StopCause::kLength;
  EXPECT_THAT(lockstep::Message(Apply(stops)), HasSubstr("an inert row stopped or failed"));
}

TEST_F(SchedulerContradictionTest, OfResultsThatNobodyAskedFor) {
  Start();
  StepOutcome outcome;
  outcome.step_id = 1;
  EXPECT_THAT(lockstep::Message(Apply(outcome)), HasSubstr("no step is in flight"));
  DetachWorker();
  EXPECT_THAT(lockstep::Message(Apply(outcome)), HasSubstr("but no worker"));
}

// At the last token both causes are true: the worker may name either, the client hears of the
// token.
TEST_F(SchedulerContradictionTest, AStopTokenAtTheLengthLimitIsNone) {
  for (const StopCause cause : {StopCause::kStopToken, StopCause::kLength}) {
    Start();
    auto request = MakeRequest(1, TextOf(1, 3), 1);
    request->sampling.stop_token_ids = {1, 2, 3};
    Submit(request);
    ASSERT_NE(Plan(), nullptr);
    StepOutcome outcome = Execute();
    outcome.rows[0].stopped = cause;
    EXPECT_TRUE(Apply(outcome).ok());
    ASSERT_NE(Ending(1), nullptr);
    EXPECT_EQ(Ending(1)->reason, FinishReason::kStop);
    EXPECT_EQ(Ending(1)->stop_token, Tokens(1).back());
  }
}

}  // namespace
}  // namespace lockstep::router::testing
