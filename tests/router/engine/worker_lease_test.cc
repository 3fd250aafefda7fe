#include "router/engine/worker_lease.h"

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

class WorkerLeaseTest : public ::testing::Test {
 protected:
  void SetUp() override { lease_.Begin(/*epoch=*/3, Description(/*incarnation=*/1)); }

  WorkerLease lease_;
};

TEST_F(WorkerLeaseTest, KnowsItsWorkerBeyondItsEnd) {
  EXPECT_TRUE(lease_.held());
  lease_.End(absl::UnavailableError("gone"), CircuitBreaker::Loss::kIdle, At(5));
  EXPECT_FALSE(lease_.held());
  EXPECT_EQ(lease_.lost_at(), At(5));
  EXPECT_EQ(Message(lease_.lost_reason()), "gone");
  ASSERT_TRUE(lease_.bits().has_value());
  EXPECT_EQ(lease_.bits()->numerics_id, 7u);
}

TEST_F(WorkerLeaseTest, SeesARestart) {
  EXPECT_FALSE(WorkerLease().Begin(1, Description(1)));
  EXPECT_FALSE(lease_.Begin(4, Description(1)));
  EXPECT_TRUE(lease_.Begin(5, Description(2)));
}

TEST_F(WorkerLeaseTest, ResultsBelongToStepsOfThisIncarnation) {
  lease_.AddStep(Step(1, At(1)));
  lease_.AddStep(Step(2, At(1)));
  EXPECT_THAT(Message(lease_.TakeStep(ResultOf(2, 1), At(2)).status()), HasSubstr("incarnation"));
  EXPECT_EQ(lease_.TakeStep(ResultOf(1, 1), At(2))->plan.step_id, 1u);
  EXPECT_EQ(lease_.TakeStep(ResultOf(1, 2), At(3))->plan.step_id, 2u);
  EXPECT_EQ(Message(lease_.TakeStep(ResultOf(1, 3), At(4)).status()),
            "step_id: got 3 with no step in flight");
}

TEST_F(WorkerLeaseTest, DeadlinesCountFromWhenTheOldestStepBegan) {
  EXPECT_EQ(lease_.Deadline(kTimeout), Instant::InfiniteFuture());
  lease_.AddStep(Step(1, At(1)));
  lease_.AddStep(Step(2, At(2)));
  EXPECT_EQ(lease_.Deadline(kTimeout), At(61));
  EXPECT_EQ(Message(lease_.Overdue(kTimeout)), "step 1 had no result after 1m");
  // Step 2 began when step 1 was done.
  ASSERT_TRUE(lease_.TakeStep(ResultOf(1, 1), At(30)).ok());
  EXPECT_EQ(lease_.Deadline(kTimeout), At(90));
  ASSERT_TRUE(lease_.TakeStep(ResultOf(1, 2), At(31)).ok());
  EXPECT_EQ(lease_.Deadline(kTimeout), Instant::InfiniteFuture());
  lease_.Drain();
  EXPECT_EQ(lease_.Deadline(kTimeout), At(91));
  EXPECT_EQ(Message(lease_.Overdue(kTimeout)), "the drained worker did not end its lease after 1m");
}

TEST_F(WorkerLeaseTest, ALossCountsWhenStepsWereUnderWay) {
  EXPECT_EQ(lease_.LossNow(), CircuitBreaker::Loss::kIdle);
  lease_.AddStep(Step(1, At(1)));
  EXPECT_EQ(lease_.LossNow(), CircuitBreaker::Loss::kFailure);
  lease_.Drain();
  EXPECT_EQ(lease_.LossNow(), CircuitBreaker::Loss::kIdle);
}

TEST_F(WorkerLeaseTest, StepsSentBeforeARefusalAreRefusedWithoutBlame) {
  const absl::Status refusal = absl::InvalidArgumentError("a row too many");
  lease_.AddStep(Step(2, At(1)));
  lease_.AddStep(Step(3, At(1)));
  // Steps 2 and 3 were on their way when step 1 was refused.
  EXPECT_TRUE(lease_.JudgeRefusal(Step(1, At(1)).plan, refusal).ok());
  EXPECT_TRUE(lease_.JudgeRefusal(Step(2, At(1)).plan, refusal).ok());
  EXPECT_TRUE(lease_.JudgeRefusal(Step(3, At(1)).plan, refusal).ok());
  EXPECT_THAT(Message(lease_.JudgeRefusal(Step(4, At(2)).plan, refusal)),
              HasSubstr("2 times in a row, the last time with: a row too many"));
}

TEST_F(WorkerLeaseTest, StepsWhoseRowsAllFailAreFaults) {
  const StepPlan plan = Step(1, At(1), /*num_rows=*/2).plan;
  const StepVerdict one_failed = {.num_failed_rows = 1, .num_failed_requests = 1};
  const StepVerdict all_failed = {
      .num_failed_rows = 2, .num_failed_requests = 2, .last_failure = absl::InternalError("NaN")};
  const StepVerdict all_inert = {.num_inert_rows = 2};
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(lease_.JudgeRows(plan, one_failed, At(1)).ok());
    EXPECT_TRUE(lease_.JudgeRows(plan, all_inert, At(1)).ok());
  }
  // The worker has served before, so it may fail a few times.
  EXPECT_TRUE(lease_.JudgeRows(plan, all_failed, At(1)).ok());
  EXPECT_THAT(Message(lease_.JudgeRows(plan, all_failed, At(1))), HasSubstr("NaN"));
}

TEST_F(WorkerLeaseTest, AHungWorkerIsOnTrialUntilItHasServedForAWhile) {
  lease_.End(absl::UnavailableError("hung"), CircuitBreaker::Loss::kHang, At(1));
  EXPECT_EQ(lease_.circuit(), CircuitState::kOpen);
  lease_.Begin(4, Description(2));
  EXPECT_EQ(lease_.circuit(), CircuitState::kHalfOpen);
  const StepPlan plan = Step(1, At(2)).plan;
  ASSERT_TRUE(lease_.JudgeRows(plan, {}, At(2)).ok());
  EXPECT_EQ(lease_.circuit(), CircuitState::kHalfOpen);
  ASSERT_TRUE(lease_.JudgeRows(plan, {}, At(2) + CircuitBreaker::kProof).ok());
  EXPECT_EQ(lease_.circuit(), CircuitState::kClosed);
}

}  // namespace
}  // namespace lockstep::router
