// Requests with constraints: which worker may run them, and how.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "common/status.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

class SchedulerConstraintsTest : public SchedulerTest {
 protected:
  std::shared_ptr<Request> Constrained(RequestKey key, uint64_t engine) {
    auto request = MakeRequest(key, TextOf(key, 4), 20);
    request->constraint = {.constraint = {.kind = ConstraintKind::kRegex, .text = "a*"},
                           .engine = engine};
    return request;
  }
};

TEST_F(SchedulerConstraintsTest, TheWorkerNeedsTheSameEngine) {
  Start();
  EXPECT_EQ(TrySubmit(Constrained(1, 7)).code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(TrySubmit(Constrained(1, 7))), HasSubstr("no constraint engine"));
  DetachWorker();
  limits.constraint_engine = 8;
  AttachWorker(limits);
  EXPECT_EQ(TrySubmit(Constrained(1, 7)).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(TrySubmit(Constrained(1, 8)).ok());
  Submit(2, TextOf(2, 4), 5);  // others do not care
  RunUntilIdle();
}

TEST_F(SchedulerConstraintsTest, RowsHaveOneIteration) {
  config.max_steps_in_flight = 1;
  config.max_decode_iterations = 8;
  limits.max_decode_iterations = 8;
  limits.constraint_engine = 7;
  Start();
  auto request = Constrained(1, 7);
  Submit(request);
  ASSERT_NE(Plan(), nullptr);
  Done();
  EXPECT_EQ(Plan()->decode_iterations, 1u);
  RunUntilIdle();
  ExpectComplete(*request);
}

TEST_F(SchedulerConstraintsTest, ALongConstraintCountsAsIdsOfItsStep) {
  config.max_started_ids_per_step = 1000;
  limits.constraint_engine = 7;
  Start();
  auto first = Constrained(1, 7);
  first->constraint->constraint.text = std::string(5000, 'a');
  Submit(first);
  Submit(2, TextOf(2, 4), 5);
  ASSERT_NE(Plan(), nullptr);
  EXPECT_EQ(planned.back().started.size(), 1u) << "the other one starts with the next step";
  RunUntilIdle();
}

}  // namespace
}  // namespace lockstep::router::testing
