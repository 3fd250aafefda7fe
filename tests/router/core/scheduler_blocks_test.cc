// KV blocks: prefix hits, fences, preemption, and progress when there are too few.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/status.h"
#include "router/core/policy/priority_policy.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SchedulerBlocksTest : public SchedulerTest {
 protected:
  SchedulerBlocksTest() { limits.kv_groups[0].block_size_tokens = 2; }

  // Runs a request alone; its full blocks are cached afterwards.
  void RunAndCache(RequestKey key, std::vector<TokenId> prompt, std::string salt = "") {
    auto request = MakeRequest(key, std::move(prompt), 1);
    request->prefix_root.salt = std::move(salt);
    Submit(request);
    RunUntilIdle();
  }
  uint32_t CachedTokens(RequestKey key) { return admitted.at(key).num_cached_tokens; }
};

TEST_F(SchedulerBlocksTest, AHitNeverCoversTheLastPromptToken) {
  Start();
  RunAndCache(1, TextOf(1, 8));
  for (uint32_t num_tokens = 1; num_tokens <= 8; ++num_tokens) {
    RunAndCache(10 + num_tokens, TextOf(1, num_tokens));
    EXPECT_EQ(CachedTokens(10 + num_tokens), (num_tokens - 1) / 2 * 2) << num_tokens;
  }
}

TEST_F(SchedulerBlocksTest, AHitNeedsTheSameTokensFromTheStart) {
  Start();
  RunAndCache(1, TextOf(1, 8));
  std::vector<TokenId> other = TextOf(1, 8);
  other[3] = 7;
  RunAndCache(2, other);
  EXPECT_EQ(CachedTokens(2), 2u);
  other = TextOf(1, 8);
  other.erase(other.begin(), other.begin() + 2);
  RunAndCache(3, other);
  EXPECT_EQ(CachedTokens(3), 0u) << "equal blocks after another prefix are other blocks";
}

TEST_F(SchedulerBlocksTest, SaltsDoNotShare) {
  Start();
  RunAndCache(1, TextOf(1, 8), "a");
  RunAndCache(2, TextOf(1, 8), "b");
  RunAndCache(3, TextOf(1, 8));
  RunAndCache(4, TextOf(1, 8), "a");
  EXPECT_EQ(CachedTokens(2), 0u);
  EXPECT_EQ(CachedTokens(3), 0u);
  EXPECT_EQ(CachedTokens(4), 6u);
}

TEST_F(SchedulerBlocksTest, WhoBypassesTheCacheComputesEverything) {
  Start();
  RunAndCache(1, TextOf(1, 8));
  auto request = MakeRequest(2, TextOf(1, 8), 1);
  request->bypass_prefix_cache = true;
  Submit(request);
  RunUntilIdle();
  EXPECT_EQ(CachedTokens(2), 0u);
  EXPECT_EQ(Stats().prefix_hit_tokens, 0u);
}

TEST_F(SchedulerBlocksTest, WhatIsComputedWholeLooksNothingUp) {
  Start();
  RunAndCache(1, TextOf(1, 8));
  const uint64_t num_queried = Stats().prefix_query_tokens;
  auto describes = MakeRequest(2, TextOf(1, 8), 1);
  describes->sampling.num_prompt_logprobs = 0;
  Submit(describes);
  RunUntilIdle();
  EXPECT_EQ(CachedTokens(2), 0u);
  EXPECT_EQ(Stats().prefix_query_tokens, num_queried);
}

TEST_F(SchedulerBlocksTest, BlocksArePublishedWhenTheirStepIsAcknowledged) {
  Start();
  Submit(1, TextOf(1, 8), 1);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().prefix_index_nodes, 0u);
  Submit(2, TextOf(1, 8), 1);
  EXPECT_EQ(Plan()->started[0].num_computed_tokens, 0u) << "nothing is certain yet";
  Done();
  EXPECT_EQ(Stats().prefix_index_nodes, 4u);
  RunUntilIdle();
  EXPECT_EQ(Stats().prefix_index_nodes, 4u) << "equal blocks are not published twice";
}

// The step behind a stop computes nothing; the position that it was to write is not in the cache.
TEST_F(SchedulerBlocksTest, WastedRowsAreNeverPublished) {
  limits.kv_groups[0].block_size_tokens = 1;
  config.max_steps_in_flight = 3;
  Start();
  auto request = MakeRequest(1, {1, 2, 3}, 20);
  request->sampling.stop_token_ids = {1, 2, 3};  // whatever comes
  Submit(request);
  for (int i = 0; i < 3; ++i) ASSERT_NE(Plan(), nullptr);
  RunUntilIdle();
  EXPECT_EQ(Tokens(1).size(), 1u);
  EXPECT_EQ(Stats().wasted_rows, 2u);
  EXPECT_EQ(worker->counts().inert_rows, 2u);
  EXPECT_EQ(Stats().prefix_index_nodes, 3u);
  std::vector<TokenId> longer = {1, 2, 3, Tokens(1)[0], 1};
  RunAndCache(2, longer);
  EXPECT_EQ(CachedTokens(2), 3u);
}

TEST_F(SchedulerBlocksTest, FinishedIsNotReleasable) {
  config.max_steps_in_flight = 2;
  Start();
  Submit(1, TextOf(1, 3), 20);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Done();
  const uint32_t num_blocks = Stats().used_blocks;
  Cancel(1);
  EXPECT_EQ(Stats().used_blocks, 0u);
  EXPECT_EQ(Stats().fenced_blocks, num_blocks);
  EXPECT_FALSE(scheduler->Idle()) << "a step is in flight";
  Done();
  EXPECT_EQ(Stats().fenced_blocks, 0u);
  EXPECT_TRUE(scheduler->Idle());
  EXPECT_EQ(Stats().free_blocks + Stats().cached_blocks, limits.kv_groups[0].num_blocks);
}

TEST_F(SchedulerBlocksTest, NoDeadlockWithEveryBlockFenced) {
  config.max_steps_in_flight = 2;
  limits.kv_groups[0].num_blocks = 4;
  Start();
  auto waiting = MakeRequest(9, TextOf(9, 8), 1);
  Submit(1, TextOf(1, 3), 5);
  Submit(2, TextOf(2, 2), 5);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().free_blocks, 0u);
  Cancel(1);
  Cancel(2);
  Submit(waiting);
  EXPECT_EQ(Stats().fenced_blocks, 4u);
  EXPECT_EQ(Plan(), nullptr) << "nothing can be taken, and nothing is preempted or failed";
  Done();
  EXPECT_EQ(Stats().fenced_blocks, 4u) << "the second step mentions every block as well";
  EXPECT_EQ(Plan(), nullptr);
  Done();
  EXPECT_EQ(Stats().fenced_blocks, 0u);
  ASSERT_NE(Plan(), nullptr);
  RunUntilIdle();
  ExpectComplete(*waiting);
}

TEST_F(SchedulerBlocksTest, AFencedBlockCanBeHit) {
  config.max_steps_in_flight = 2;
  limits.kv_groups[0].num_blocks = 6;
  Start();
  Submit(1, TextOf(1, 6), 20);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Done();
  Cancel(1);
  EXPECT_EQ(Stats().fenced_blocks, 4u);
  auto request = MakeRequest(2, TextOf(1, 6), 2);
  Submit(request);
  EXPECT_EQ(Plan()->started[0].num_computed_tokens, 4u);
  EXPECT_EQ(Stats().fenced_blocks, 2u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerBlocksTest, TheLastInOrderIsPreemptedAndLosesNothing) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 8;
  Start();
  std::vector<std::shared_ptr<Request>> requests;
  for (RequestKey key = 1; key <= 2; ++key) {
    requests.push_back(MakeRequest(key, TextOf(key, 4), 11));
    Submit(requests.back());
  }
  ASSERT_TRUE(RunUntil([this] { return Stats().preemptions > 0; }));
  EXPECT_EQ(Stats().running_sequences, 1u);
  EXPECT_EQ(Stats().waiting_sequences, 1u);
  const size_t num_held = Tokens(2).size();
  EXPECT_GT(num_held, 0u);
  ASSERT_TRUE(RunUntil([this] { return Ending(1) != nullptr; }));
  EXPECT_EQ(Tokens(2).size(), num_held) << "request 1 runs to its end first";
  const StepPlan* plan = Plan();
  ASSERT_EQ(plan->started.size(), 1u);
  EXPECT_EQ(plan->started[0].request->key, 2u);
  EXPECT_EQ(plan->started[0].known_tokens.size(), 4 + num_held);
  RunUntilIdle();
  for (const auto& request : requests) ExpectComplete(*request);
}

TEST_F(SchedulerBlocksTest, ThePolicyPicksTheVictim) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 8;
  Start(MakePriorityPolicy(absl::Hours(1)));
  auto low = MakeRequest(1, TextOf(1, 4), 11);
  low->priority = 5;
  auto high = MakeRequest(2, TextOf(2, 4), 11);
  Submit(low);
  Submit(high);
  ASSERT_TRUE(RunUntil([this] { return Ending(2) != nullptr; }));
  EXPECT_GT(Stats().preemptions, 0u);
  EXPECT_EQ(Ending(1), nullptr) << "it came first, but it was the one to give way";
  RunUntilIdle();
  ExpectComplete(*low);
  ExpectComplete(*high);
}

TEST_F(SchedulerBlocksTest, TokensOfAPreemptedSequenceAreKept) {
  config.max_steps_in_flight = 2;
  limits.kv_groups[0].num_blocks = 6;
  Start();
  auto first = MakeRequest(1, TextOf(1, 4), 9);
  auto second = MakeRequest(2, TextOf(2, 4), 9);
  Submit(first);
  Submit(second);
  ASSERT_TRUE(RunUntil([this] { return Stats().preemptions > 0; }));
  ASSERT_FALSE(planned.empty());
  const size_t num_before = Tokens(2).size();
  while (!planned.empty()) Done();
  EXPECT_GT(Tokens(2).size(), num_before) << "they were under way when it was preempted";
  RunUntilIdle();
  ExpectComplete(*first);
  ExpectComplete(*second);
}

TEST_F(SchedulerBlocksTest, BlocksThatComeBackAreAwaitedNotTaken) {
  config.max_steps_in_flight = 2;
  limits.kv_groups[0].block_size_tokens = 1;
  limits.kv_groups[0].num_blocks = 12;
  Start();
  for (RequestKey key = 1; key <= 3; ++key) Submit(key, TextOf(key, 2), 4);
  ASSERT_NE(Plan(), nullptr);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(Stats().used_blocks, 12u);
  Cancel(3);
  Done();
  EXPECT_EQ(Plan(), nullptr) << "two blocks are missing, four are on their way back";
  EXPECT_EQ(Stats().running_sequences, 2u);
  RunUntilIdle();
  EXPECT_EQ(Stats().preemptions, 0u);
  EXPECT_EQ(Tokens(1).size(), 4u);
  EXPECT_EQ(Tokens(2).size(), 4u);
}

TEST_F(SchedulerBlocksTest, TooManyPreemptionsFailWithAReason) {
  config.max_preemptions_per_sequence = 0;
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 8;
  Start();
  auto first = MakeRequest(1, TextOf(1, 4), 11);
  Submit(first);
  Submit(2, TextOf(2, 4), 11);
  RunUntilIdle();
  ExpectComplete(*first);
  ASSERT_NE(Ending(2), nullptr);
  EXPECT_EQ(Ending(2)->error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(Ending(2)->error), HasSubstr("preempted 0 times for lack of KV blocks"));
  EXPECT_THAT(Message(Ending(2)->error), HasSubstr("the worker's 8 blocks"));
}

TEST_F(SchedulerBlocksTest, ASequenceThatOutgrowsTheWorkerFailsAlone) {
  limits.kv_groups[0].num_blocks = 4;
  Start();
  auto small = MakeRequest(2, TextOf(2, 2), 3);
  Submit(1, TextOf(1, 4), 20);
  Submit(small);
  RunUntilIdle();
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Ending(1)->error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Ending(1)->error), HasSubstr("after 9 tokens the sequence needs 5 KV blocks, "
                                                   "the worker has 4 of 2 tokens"));
  EXPECT_EQ(Tokens(1).size(), 5u) << "everything that fits is delivered";
  ExpectComplete(*small);
}

// Two sequences compute the same text side by side: one's blocks are published, the other one's
// equal blocks are not, but what it publishes later hangs on the first one's. When that is all that
// fills the pool, it starts again on the published blocks.
TEST_F(SchedulerBlocksTest, DuplicatesAreShedWhenBlocksRunOut) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 8;
  Start();
  auto survivor = MakeRequest(2, TextOf(1, 6), 9);
  Submit(1, TextOf(1, 6), 1);
  Submit(survivor);
  RunUntilIdle();
  ExpectComplete(*survivor);
  EXPECT_EQ(Stats().preemptions, 1u);
  EXPECT_EQ(Stats().prefix_hit_tokens, 10u);
}

// It needs the blocks that are cached, and a restart would not use them.
TEST_F(SchedulerBlocksTest, WhoBypassesTheCacheKeepsNoEqualBlocks) {
  limits.kv_groups[0].num_blocks = 8;
  limits.kv_groups[0].block_size_tokens = 2;
  Start();
  RunAndCache(1, TextOf(1, 8));
  auto request = MakeRequest(2, TextOf(1, 8), 8);
  request->bypass_prefix_cache = true;
  Submit(request);
  RunUntilIdle();
  ExpectComplete(*request);
  EXPECT_EQ(Stats().preemptions, 0u);
}

// Two requests with one prompt come before it is cached, and the pool has room for one whole
// prompt.
TEST_F(SchedulerBlocksTest, AStartThatLackedBlocksSeesThatItsPromptWasCachedMeanwhile) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 12;
  limits.kv_groups[0].block_size_tokens = 4;
  limits.max_step_tokens = 64;
  Start();
  Submit(1, TextOf(1, 33), 12);
  Submit(2, TextOf(1, 33), 1);
  ASSERT_NE(FindStarted(*Plan(), 1), nullptr);
  EXPECT_EQ(FindStarted(planned.back(), 2), nullptr) << "nine blocks are taken";
  Done();
  const StepPlan* const next = Plan();
  ASSERT_NE(next, nullptr);
  ASSERT_NE(FindStarted(*next, 2), nullptr);
  EXPECT_EQ(FindStarted(*next, 2)->num_computed_tokens, 32u);
  RunUntilIdle();
}

TEST_F(SchedulerBlocksTest, WhatWasEvictedIsPublishedAgainByItsDuplicate) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 10;
  Start();
  Submit(1, TextOf(1, 6), 1);
  auto twin = MakeRequest(2, TextOf(1, 6), 7);
  Submit(twin);
  ASSERT_NE(Plan(), nullptr);
  Done();
  ASSERT_NE(Ending(1), nullptr);
  EXPECT_EQ(Stats().prefix_index_nodes, 3u);
  Submit(3, TextOf(3, 7), 1);  // evicts request 1's blocks, on which request 2 leaned
  RunUntilIdle();
  ExpectComplete(*twin);
  RunAndCache(4, TextOf(1, 6));
  EXPECT_EQ(CachedTokens(4), 4u);
}

TEST_F(SchedulerBlocksTest, SequencesLeaveRoomForThoseThatRun) {
  config.max_steps_in_flight = 1;
  limits.kv_groups[0].num_blocks = 7;
  Start();
  Submit(1, TextOf(1, 8), 3);
  Submit(2, TextOf(2, 6), 1);
  EXPECT_EQ(Plan()->started.size(), 1u) << "request 2 fits, but request 1 could not grow";
  Done();
  EXPECT_THAT(Plan()->started, IsEmpty());
  RunUntilIdle();
  EXPECT_EQ(Stats().preemptions, 0u);
}

TEST_F(SchedulerBlocksTest, AChainIsEvictedFromItsEnd) {
  limits.kv_groups[0].num_blocks = 6;
  Start();
  RunAndCache(1, TextOf(1, 8));  // four blocks
  RunAndCache(2, TextOf(2, 6));  // needs three: one of request 1's goes
  EXPECT_EQ(Stats().prefix_index_nodes, 6u);
  RunAndCache(3, TextOf(1, 8));
  EXPECT_EQ(CachedTokens(3), 6u);
}

}  // namespace
}  // namespace lockstep::router::testing
