// Rows that keep several tokens, or none, and sequences that run ahead only so far.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/status.h"
#include "router/core/requests/sequence.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SchedulerDraftsTest : public SchedulerTest {
 protected:
  SchedulerDraftsTest() {
    config.max_draft_tokens = 3;
    config.adaptive_drafts = false;
    limits.max_draft_tokens = 3;
  }

  // The request has its first token, and nothing is in flight.
  std::shared_ptr<Request> StartOne(uint32_t max_new_tokens) {
    Start();
    auto request = MakeRequest(1, TextOf(1, 4), max_new_tokens);
    Submit(request);
    EXPECT_THAT(PlannedDrafts(), ElementsAre(0)) << "a prefill drafts nothing";
    Done();
    return request;
  }
  // Of the rows of the next step.
  std::vector<uint32_t> PlannedDrafts() {
    std::vector<uint32_t> drafts;
    const StepPlan* plan = Plan();
    if (plan == nullptr) return drafts;
    for (const RunRow& row : plan->rows) drafts.push_back(row.max_drafts);
    return drafts;
  }
  void KeepRightDrafts(uint32_t num_right) { Done({.num_right_drafts = num_right}); }
};

TEST_F(SchedulerDraftsTest, ARowKeepsWhatWasRightAndOneMore) {
  const auto request = StartOne(20);
  size_t num_tokens = 1;
  for (const uint32_t num_right : {0u, 2u, 3u, 1u}) {
    EXPECT_THAT(PlannedDrafts(), ElementsAre(3));
    KeepRightDrafts(num_right);
    num_tokens += num_right + 1;
    EXPECT_EQ(Tokens(1).size(), num_tokens);
  }
  EXPECT_EQ(Stats().drafted_tokens, 4u * 3u);
  EXPECT_EQ(Stats().accepted_drafts, 0u + 2u + 3u + 1u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerDraftsTest, TheSmallerBoundCounts) {
  limits.max_draft_tokens = 2;
  StartOne(20);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(2));
  limits.max_draft_tokens = 0;
  StartOne(20);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(0));
  limits.max_draft_tokens = 3;
  config.max_draft_tokens = 0;
  StartOne(20);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(0));
}

TEST_F(SchedulerDraftsTest, NothingIsDraftedBeyondTheEnd) {
  const auto request = StartOne(4);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(2)) << "three tokens are left, the last is sampled";
  KeepRightDrafts(2);
  RunUntilIdle();
  ExpectComplete(*request);
}

// The row in flight keeps 1 to 4 of the 5 tokens that are left.
TEST_F(SchedulerDraftsTest, ARowIsPlannedIfTheRowsBeforeItMayKeepLittle) {
  config.max_steps_in_flight = 8;
  const auto request = StartOne(6);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(3));
  EXPECT_THAT(PlannedDrafts(), ElementsAre(3));
  EXPECT_THAT(PlannedDrafts(), ElementsAre(2));
  EXPECT_THAT(PlannedDrafts(), ElementsAre(1));
  EXPECT_THAT(PlannedDrafts(), ElementsAre(0));
  EXPECT_EQ(Plan(), nullptr) << "each of them keeps at least one token";
  KeepRightDrafts(3);
  EXPECT_EQ(Tokens(1).size(), 5u);
  KeepRightDrafts(3);
  ExpectComplete(*request);
  RunUntilIdle();
  EXPECT_EQ(Stats().wasted_rows, 3u) << "rows behind the end";
}

TEST_F(SchedulerDraftsTest, BlocksAreReservedForTheUpperBoundAndKept) {
  limits.kv_groups[0].block_size_tokens = 1;
  limits.kv_groups[0].num_blocks = 40;  // too few to reserve more than the next step needs
  config.max_steps_in_flight = 2;
  StartOne(30);
  EXPECT_EQ(Stats().used_blocks, 4u) << "the first new token is not computed yet";
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().used_blocks, 8u) << "that token, and three drafts";
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().used_blocks, 12u) << "if all were right";
  KeepRightDrafts(0);
  EXPECT_EQ(Stats().used_blocks, 12u) << "what was not kept is there for the next step";
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().used_blocks, 13u) << "which needs one more";
  RunUntilIdle();
}

TEST_F(SchedulerDraftsTest, NobodyIsPreemptedForDrafts) {
  limits.kv_groups[0].block_size_tokens = 4;
  limits.kv_groups[0].num_blocks = 4;
  config.max_steps_in_flight = 1;
  Start();
  // Each has two blocks at its end, so there is no room for more.
  const auto first = MakeRequest(1, TextOf(1, 3), 5);
  const auto second = MakeRequest(2, TextOf(2, 3), 5);
  Submit(first);
  Submit(second);
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*second);
  EXPECT_EQ(Stats().preemptions, 0u);
}

TEST_F(SchedulerDraftsTest, WhereBlocksEndFewerTokensAreDrafted) {
  limits.kv_groups[0].block_size_tokens = 4;
  limits.kv_groups[0].num_blocks = 2;
  StartOne(5);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(3)) << "positions 4 to 7 are the second block";
  KeepRightDrafts(0);
  RunUntilIdle();
  limits.kv_groups[0].num_blocks = 3;
  Start();
  Submit(1, TextOf(1, 2), 20);
  Submit(2, TextOf(2, 2), 20);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_THAT(PlannedDrafts(), ElementsAre(1, 1)) << "one block is left for two sequences";
  EXPECT_EQ(Stats().preemptions, 0u);
}

TEST_F(SchedulerDraftsTest, StepsWithDraftsHaveOneIteration) {
  config.max_decode_iterations = 4;
  limits.max_decode_iterations = 4;
  StartOne(20);
  EXPECT_EQ(Plan()->decode_iterations, 1u);
  EXPECT_EQ(planned.back().num_decode_tokens, 1u) << "drafts do not count";
}

TEST_F(SchedulerDraftsTest, RowsRepeatOnlyWithTheirLimits) {
  config.max_steps_in_flight = 8;
  StartOne(6);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(3));
  EXPECT_FALSE(planned.back().repeat_rows) << "the step before drafted nothing";
  EXPECT_THAT(PlannedDrafts(), ElementsAre(3));
  EXPECT_TRUE(planned.back().repeat_rows);
  EXPECT_THAT(PlannedDrafts(), ElementsAre(2));
  EXPECT_FALSE(planned.back().repeat_rows);
  RunUntilIdle();
}

TEST_F(SchedulerDraftsTest, OutcomesOutsideTheirBoundsAreContradictions) {
  StartOne(20);
  ASSERT_NE(Plan(), nullptr);
  StepOutcome outcome = Execute({.num_right_drafts = 3});
  outcome.rows[0].tokens.push_back(1);
  EXPECT_THAT(Message(Apply(outcome)), HasSubstr("5 tokens kept, at most 4 were planned"));
  StartOne(20);
  ASSERT_NE(Plan(), nullptr);
  outcome = Execute();
  outcome.rows.clear();
  EXPECT_THAT(Message(Apply(outcome)), HasSubstr("0 tokens kept, expected 1 or more"));
}

TEST_F(SchedulerDraftsTest, AStopTokenEndsTheRow) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 30);
  request->sampling.stop_token_ids = {kEndToken};
  Submit(request);
  EXPECT_TRUE(RunUntil([this] { return Ending(1) != nullptr; }));
  ExpectComplete(*request);
  RunUntilIdle();
}

TEST_F(SchedulerDraftsTest, APrefixHitNeedsAcknowledgedTokens) {
  config.max_steps_in_flight = 4;
  Start();
  const auto request = MakeRequest(1, TextOf(1, 4), 9);
  Submit(request);
  for (int i = 0; i < 4; ++i) ASSERT_NE(Plan(), nullptr);
  KeepRightDrafts(0);
  KeepRightDrafts(0);
  EXPECT_EQ(Tokens(1).size(), 2u);
  // Tokens 0 to 4 are computed. Up to 12 may be, but only one block of four is certain.
  std::vector<TokenId> prompt = request->prompt_tokens;
  for (const TokenId token : RunAlone(*request, 0).tokens) prompt.push_back(token);
  const auto again = MakeRequest(2, prompt, 3);
  Submit(again);
  ASSERT_TRUE(RunUntil([this] { return admitted.contains(2); }));
  EXPECT_LE(admitted.at(2).num_cached_tokens, 4u + Tokens(1).size());
  RunUntilIdle();
  ExpectComplete(*again);
}

class SchedulerRunAheadTest : public SchedulerTest {};

TEST_F(SchedulerRunAheadTest, ASequenceHasNoMoreRowsInFlightThanItMay) {
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 5);
  request->max_rows_in_flight = 1;
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Plan(), nullptr);
  Submit(2, TextOf(2, 4), 5);
  EXPECT_EQ(Plan()->rows.size(), 1u) << "others run meanwhile";
  EXPECT_EQ(planned.back().rows[0].slot, 1u);
  Done();
  EXPECT_EQ(Plan()->rows.size(), 2u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerRunAheadTest, RowsOfASequenceWithALimitHaveOneIteration) {
  config.max_steps_in_flight = 1;
  config.max_decode_iterations = 8;
  limits.max_decode_iterations = 8;
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 20);
  request->max_rows_in_flight = 2;
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_EQ(Plan()->decode_iterations, 1u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerRunAheadTest, NoneIsRefused) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 5);
  request->max_rows_in_flight = 0;
  EXPECT_THAT(Message(TrySubmit(request)), HasSubstr("max_rows_in_flight: 0"));
}

TEST_F(SchedulerRunAheadTest, ARowThatWaitsIsPlannedAgain) {
  config.max_steps_in_flight = 1;
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 6);
  request->rows_may_wait = true;
  Submit(request);
  uint64_t seed = 0;
  uint32_t num_waits = 0;
  for (int i = 0; i < 100 && Ending(1) == nullptr; ++i) {
    ASSERT_NE(Plan(), nullptr);
    const size_t num_tokens = Tokens(1).size();
    Done({.draft_seed = ++seed});
    if (Tokens(1).size() == num_tokens) ++num_waits;
  }
  EXPECT_GT(num_waits, 0u);
  ExpectComplete(*request);
  RunUntilIdle();
}

// Request 1 waits for ever, beside another one. A token in between starts the time anew.
TEST_F(SchedulerRunAheadTest, ASequenceThatWaitsTooLongFails) {
  Start();
  auto request = MakeRequest(1, TextOf(1, 4), 6);
  request->rows_may_wait = true;
  Submit(request);
  Submit(2, TextOf(2, 4), 40);
  const auto run = [this](bool waits) {
    ASSERT_NE(Plan(), nullptr);
    Done({.rows_wait = waits});
  };
  run(true);
  now += kMaxRowWait - absl::Seconds(1);
  run(true);
  run(false);
  EXPECT_EQ(Tokens(1).size(), 1u);
  now += absl::Seconds(2);
  run(true);
  now += kMaxRowWait - absl::Seconds(1);
  run(true);
  EXPECT_EQ(Ending(1), nullptr);
  now += absl::Seconds(1);
  run(true);
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(Ending(1)->error), HasSubstr("no token after token 5 for 30s"));
  RunUntilIdle();
  EXPECT_EQ(Ending(2)->reason, FinishReason::kLength);
  EXPECT_EQ(Tokens(2).size(), 40u);
}

}  // namespace
}  // namespace lockstep::router::testing
