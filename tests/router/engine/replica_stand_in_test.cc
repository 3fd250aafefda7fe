// A replica of a worker that belongs to another router.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/status.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::testing::GreedyTokens;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class StandInReplicaTest : public ::lockstep::router::testing::ReplicaTest {
 protected:
  StandInReplicaTest() : ReplicaTest(WorkerOwner::kOther) {}
};

TEST_F(StandInReplicaTest, AWorkerThatIsAskedBackFinishesWhatRunsAndIsReadyNoMore) {
  Connect();
  const auto running = Submit({1, 2, 3}, 6);
  RunSteps(1);
  worker_.AskBack();
  RunSteps(1);
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kStandby);
  EXPECT_EQ(WorkerIs(WorkerState::kStandby), 1);
  EXPECT_THAT(Message(replica_.board().CheckWorker()), HasSubstr("left to another router"));
  RunUntilIdle();
  running->Read();
  EXPECT_EQ(running->end, absl::OkStatus());
  EXPECT_THAT(running->tokens[0], ElementsAreArray(GreedyTokens({}, {1, 2, 3}, 6)));
  EXPECT_EQ(worker_.num_live_slots(), 0u) << "so the worker ends the lease";

  LoseWorker();
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kStandby);
  const auto between = Submit({4, 5}, 5);
  between->Read();
  ASSERT_TRUE(between->end.has_value()) << "no grace: the worker does not come back";
  EXPECT_THAT(Message(*between->end), HasSubstr("left to another router"));
  Standby("another router serves the worker");
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kStandby);
  const auto late = Submit({4, 5}, 5);
  late->Read();
  ASSERT_TRUE(late->end.has_value());
  EXPECT_THAT(Message(*late->end), HasSubstr("another router serves the worker"));
  // An orphan again.
  Connect();
  EXPECT_EQ(replica_.board().worker_state(), WorkerState::kReady);
}

TEST_F(StandInReplicaTest, RequestsThatWaitForAWorkerThatWentBackAreToldSo) {
  for (const bool ended : {false, true}) {
    Connect();
    const auto running = Submit({1, 2, 3}, 40);
    RunSteps(1);
    worker_.AskBack();
    const auto waiting = Submit({4, 5}, 5);
    RunSteps(1);
    if (ended) LoseWorker();
    AdvanceBy(absl::Seconds(30));
    waiting->Read();
    ASSERT_TRUE(waiting->end.has_value()) << ended;
    EXPECT_EQ(waiting->end->code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Message(*waiting->end),
                HasSubstr("went to another router and no other one came within 30s"));
    Cancel(*running, CancelCause::kClient);
    if (!ended) LoseWorker();
  }
}

TEST_F(StandInReplicaTest, TheCircuitClosesOnceAnotherRouterServesTheWorker) {
  const auto circuit = [this](CircuitState state) {
    return RouterMetrics::At(metrics_.ForWorker("fake:1").circuit, state).Value();
  };
  Connect();
  const auto client = Submit({1, 2, 3}, 6);
  AdvanceBy(absl::Minutes(2));  // it hangs
  EXPECT_EQ(circuit(CircuitState::kOpen), 1);
  Standby("the worker belongs to another router, which does not serve it", /*served=*/false);
  EXPECT_EQ(circuit(CircuitState::kOpen), 1) << "this router may have to stand in again";
  Standby("another router serves the worker");
  EXPECT_EQ(circuit(CircuitState::kOpen), 0);
  EXPECT_EQ(circuit(CircuitState::kClosed), 1);
}

}  // namespace
}  // namespace lockstep::router
