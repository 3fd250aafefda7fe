#include "router/engine/replica_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/status.h"

namespace lockstep::router {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);

Instant At(double seconds) { return Instant() + absl::Seconds(seconds); }

worker::v1::DescribeResponse Description(uint64_t incarnation) {
  worker::v1::DescribeResponse description;
  description.set_incarnation(incarnation);
  description.set_numerics_id(7);
  description.add_kv_groups()->set_num_blocks(8);
  return description;
}

StepInFlight Step(StepId id, Instant sent_at, size_t num_rows = 1) {
  StepInFlight step{.plan = {}, .sent_at = sent_at, .router_time = absl::ZeroDuration()};
  step.plan.step_id = id;
  step.plan.rows.resize(num_rows);
  return step;
}

worker::v1::StepResult ResultOf(uint64_t incarnation, StepId id) {
  worker::v1::StepResult result;
  result.set_incarnation(incarnation);
  result.set_step_id(id);
  return result;
}

class ReplicaWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override { worker_.Begin(/*epoch=*/3, Description(/*incarnation=*/1)); }

  ReplicaWorker worker_;
};

TEST_F(ReplicaWorkerTest, KnowsItsWorkerBeyondItsEnd) {
  EXPECT_TRUE(worker_.attached());
  worker_.End(absl::UnavailableError("gone"), CircuitBreaker::Loss::kIdle, At(5));
  EXPECT_FALSE(worker_.attached());
  EXPECT_EQ(worker_.lost_at(), At(5));
  EXPECT_EQ(Message(worker_.lost_reason()), "gone");
  ASSERT_TRUE(worker_.bits().has_value());
  EXPECT_EQ(worker_.bits()->numerics_id, 7u);
}

TEST_F(ReplicaWorkerTest, SeesARestart) {
  EXPECT_FALSE(ReplicaWorker().Begin(1, Description(1)));
  EXPECT_FALSE(worker_.Begin(4, Description(1)));
  EXPECT_TRUE(worker_.Begin(5, Description(2)));
}

TEST_F(ReplicaWorkerTest, ResultsBelongToStepsOfThisIncarnation) {
  worker_.AddStep(Step(1, At(1)));
  worker_.AddStep(Step(2, At(1)));
  EXPECT_THAT(Message(worker_.TakeStep(ResultOf(2, 1), At(2)).status()), HasSubstr("incarnation"));
  EXPECT_EQ(worker_.TakeStep(ResultOf(1, 1), At(2))->plan.step_id, 1u);
  EXPECT_EQ(worker_.TakeStep(ResultOf(1, 2), At(3))->plan.step_id, 2u);
  EXPECT_EQ(Message(worker_.TakeStep(ResultOf(1, 3), At(4)).status()),
            "step_id: got 3 with no step in flight");
}

TEST_F(ReplicaWorkerTest, DeadlinesCountFromWhenTheOldestStepBegan) {
  EXPECT_EQ(worker_.Deadline(kTimeout), Instant::InfiniteFuture());
  worker_.AddStep(Step(1, At(1)));
  worker_.AddStep(Step(2, At(2)));
  EXPECT_EQ(worker_.Deadline(kTimeout), At(61));
  EXPECT_EQ(Message(worker_.Overdue(kTimeout)), "step 1 had no result after 1m");
  // Step 2 began when step 1 was done.
  ASSERT_TRUE(worker_.TakeStep(ResultOf(1, 1), At(30)).ok());
  EXPECT_EQ(worker_.Deadline(kTimeout), At(90));
  ASSERT_TRUE(worker_.TakeStep(ResultOf(1, 2), At(31)).ok());
  EXPECT_EQ(worker_.Deadline(kTimeout), Instant::InfiniteFuture());
  worker_.Drain();
  EXPECT_EQ(worker_.Deadline(kTimeout), At(91));
  EXPECT_EQ(Message(worker_.Overdue(kTimeout)),
            "the drained worker did not end its lease after 1m");
}

TEST_F(ReplicaWorkerTest, ALossCountsWhenStepsWereUnderWay) {
  EXPECT_EQ(worker_.LossNow(), CircuitBreaker::Loss::kIdle);
  worker_.AddStep(Step(1, At(1)));
  EXPECT_EQ(worker_.LossNow(), CircuitBreaker::Loss::kFailure);
  worker_.Drain();
  EXPECT_EQ(worker_.LossNow(), CircuitBreaker::Loss::kIdle);
}

TEST_F(ReplicaWorkerTest, StepsSentBeforeARefusalAreRefusedWithoutBlame) {
  const absl::Status refusal = absl::InvalidArgumentError("a row too many");
  worker_.AddStep(Step(2, At(1)));
  worker_.AddStep(Step(3, At(1)));
  // Steps 2 and 3 were on their way when step 1 was refused.
  EXPECT_TRUE(worker_.JudgeRefusal(Step(1, At(1)).plan, refusal).ok());
  EXPECT_TRUE(worker_.JudgeRefusal(Step(2, At(1)).plan, refusal).ok());
  EXPECT_TRUE(worker_.JudgeRefusal(Step(3, At(1)).plan, refusal).ok());
  EXPECT_THAT(Message(worker_.JudgeRefusal(Step(4, At(2)).plan, refusal)),
              HasSubstr("2 times in a row, the last time with: a row too many"));
}

TEST_F(ReplicaWorkerTest, StepsWhoseRowsAllFailAreFaults) {
  const StepPlan plan = Step(1, At(1), /*num_rows=*/2).plan;
  const StepVerdict one_failed = {.num_failed_rows = 1, .num_failed_requests = 1};
  const StepVerdict all_failed = {
      .num_failed_rows = 2, .num_failed_requests = 2, .last_failure = absl::InternalError("NaN")};
  const StepVerdict all_inert = {.num_inert_rows = 2};
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(worker_.JudgeRows(plan, one_failed, At(1)).ok());
    EXPECT_TRUE(worker_.JudgeRows(plan, all_inert, At(1)).ok());
  }
  // The worker has served before, so it may fail a few times.
  EXPECT_TRUE(worker_.JudgeRows(plan, all_failed, At(1)).ok());
  EXPECT_THAT(Message(worker_.JudgeRows(plan, all_failed, At(1))), HasSubstr("NaN"));
}

TEST_F(ReplicaWorkerTest, AHungWorkerIsOnTrialUntilItHasServedForAWhile) {
  worker_.End(absl::UnavailableError("hung"), CircuitBreaker::Loss::kHang, At(1));
  EXPECT_EQ(worker_.circuit(), CircuitState::kOpen);
  worker_.Begin(4, Description(2));
  EXPECT_EQ(worker_.circuit(), CircuitState::kHalfOpen);
  const StepPlan plan = Step(1, At(2)).plan;
  ASSERT_TRUE(worker_.JudgeRows(plan, {}, At(2)).ok());
  EXPECT_EQ(worker_.circuit(), CircuitState::kHalfOpen);
  ASSERT_TRUE(worker_.JudgeRows(plan, {}, At(2) + CircuitBreaker::kProof).ok());
  EXPECT_EQ(worker_.circuit(), CircuitState::kClosed);
}

}  // namespace
}  // namespace lockstep::router
