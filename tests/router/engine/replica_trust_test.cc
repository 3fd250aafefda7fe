// Workers that are not to be relied on beside others: they have other weights, refuse their steps,
// or fail their rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/engine/replica_fleet_fixture.h"

namespace lockstep::router {
namespace {

using ::lockstep::router::testing::Client;
using ::lockstep::router::testing::ReplicaFleetTest;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ReplicaTrustTest : public ReplicaFleetTest {
 protected:
  std::unique_ptr<Client> SubmitNext() {
    const auto token = static_cast<TokenId>(1 + next_key_ % 40);
    return Submit({token, token + 1, token + 2}, 5);
  }
  // Each in turn: the first worker refuses, and is attached again when it was given up; the others
  // do what they are told.
  void RunWhileTheFirstRefuses() {
    for (bool any = true; any;) {
      any = RefuseStep(0);
      if (state(0) == WorkerState::kLost) {
        ++num_given_up_;
        Connect(0);
      }
      for (uint32_t i = 1; i < sides_.size(); ++i) any |= RunStep(i);
    }
  }
  // The worker runs the step and says that every row failed.
  bool FailStep(uint32_t i) {
    std::optional<LinkResult> event = sides_[i]->link.RunNext();
    if (!event.has_value()) return false;
    worker::v1::StepResult& result = event->result;
    for (const uint32_t slot : result.sampled_slots()) {
      worker::v1::SlotError* const error = result.add_errors();
      error->set_slot(slot);
      error->set_code(16);
      error->set_message("no");
    }
    result.clear_sampled_slots();
    result.clear_token_ids();
    Post(i, *std::move(event));
    return true;
  }
  uint32_t CountFailed(const std::vector<std::unique_ptr<Client>>& clients) {
    uint32_t num_failed = 0;
    for (const auto& client : clients) {
      client->Read();
      EXPECT_TRUE(client->end.has_value());
      if (!client->end->ok()) {
        ++num_failed;
      } else {
        ExpectComplete(*client);
      }
    }
    return num_failed;
  }

  int num_given_up_ = 0;
};

// --- weights and numerics ---

TEST_F(ReplicaTrustTest, AWorkerWithOtherWeightsIsMismatchedWhileAnotherIsReady) {
  agreement_ = std::make_unique<WorkerAgreement>(AgreementConfig{});
  Start(3);
  worker(0).SetBits(1, 2);
  worker(1).SetBits(1, 9);
  worker(2).SetBits(1, 2);
  Connect(0);
  Connect(1);
  EXPECT_EQ(state(0), WorkerState::kReady);
  EXPECT_EQ(state(1), WorkerState::kMismatched);
  EXPECT_EQ(
      RouterMetrics::At(metrics_.ForWorker(WorkerName(1)).state, WorkerState::kMismatched).Value(),
      1);
  EXPECT_THAT(replica(1).board().status().worker_text, HasSubstr("weights_fingerprint: expected"));
  ASSERT_TRUE(sides_[1]->link.drop_reason().has_value());
  Connect(2);
  EXPECT_EQ(state(2), WorkerState::kReady);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(SubmitNext());
  EXPECT_EQ(num_live(1), 0u);
  RunUntilIdle();
  EXPECT_EQ(CountFailed(clients), 0u);
  // It is tried again each time it describes itself: here after the last of the others is gone.
  Lose(0);
  Connect(1);
  EXPECT_EQ(state(1), WorkerState::kMismatched);
  Lose(2);
  Connect(1);
  EXPECT_EQ(state(1), WorkerState::kReady);
  Restart(0);
  EXPECT_EQ(state(0), WorkerState::kMismatched);
  ExpectClean();
}

TEST_F(ReplicaTrustTest, AWorkerThatDrainsIsNoReferenceAnyMore) {
  agreement_ = std::make_unique<WorkerAgreement>(AgreementConfig{});
  Start(2);
  worker(0).SetBits(1, 2);
  worker(1).SetBits(3, 4);
  Connect(0);
  const auto running = Submit({1, 2, 3}, 6);
  RunSteps(0, 1);
  worker(0).Drain();
  RunSteps(0, 1);
  ASSERT_EQ(state(0), WorkerState::kDraining);
  Connect(1);
  EXPECT_EQ(state(1), WorkerState::kReady);
  RunUntilIdle();
  ExpectComplete(*running);
}

TEST_F(ReplicaTrustTest, OfMixedWorkersARequestStaysWithItsKindAndEndsWithIt) {
  agreement_ = std::make_unique<WorkerAgreement>(AgreementConfig{.allow_mixed = true});
  Start(2);
  worker(0).SetBits(1, 2);
  worker(1).SetBits(3, 4);
  Connect(0);
  const auto begun = Submit({1, 2, 3, 4}, 12);
  RunSteps(0, 3);
  const auto untouched = Submit({5, 6, 7}, 6);
  Connect(1);
  EXPECT_EQ(state(1), WorkerState::kReady);
  Lose(0);
  RunUntilIdle();
  ExpectComplete(*untouched);
  begun->Read();
  EXPECT_FALSE(begun->end.has_value());
  EXPECT_THAT(begun->tokens[0], SizeIs(3)) << "nothing of it ran on the other kind";
  AdvanceBy(config_.failover_wait);
  ExpectEnd(*begun, absl::StatusCode::kUnavailable);
  EXPECT_THAT(begun->tokens[0], SizeIs(3));
  ExpectClean();
}

TEST_F(ReplicaTrustTest, OfMixedWorkersOneOfItsKindGoesOnWithARequest) {
  agreement_ = std::make_unique<WorkerAgreement>(AgreementConfig{.allow_mixed = true});
  Start(3);
  worker(0).SetBits(1, 2);
  worker(1).SetBits(3, 4);
  worker(2).SetBits(1, 2);
  for (uint32_t i = 0; i < 3; ++i) Connect(i);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 9; ++i) clients.push_back(SubmitNext());
  for (uint32_t i = 0; i < 3; ++i) RunSteps(i, 4);  // all have output
  const uint32_t num_of_other_kind = num_live(1);
  ASSERT_GT(num_live(0), 0u);
  Lose(0);
  EXPECT_EQ(num_live(0), 0u);
  EXPECT_EQ(num_live(1), num_of_other_kind);
  RunUntilIdle();
  EXPECT_EQ(CountFailed(clients), 0u);
  ExpectClean();
}

// --- refusals and failed rows ---

TEST_F(ReplicaTrustTest, AWorkerThatRefusesEveryStepFailsNoRequestBesideAnother) {
  Start(2);
  Connect(0);
  Connect(1);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 48; ++i) {
    clients.push_back(SubmitNext());
    if (i % 4 == 3) RunWhileTheFirstRefuses();
  }
  RunWhileTheFirstRefuses();
  EXPECT_EQ(CountFailed(clients), 0u);
  EXPECT_GT(num_given_up_, 0);
  EXPECT_EQ(CircuitIs(0, CircuitState::kHalfOpen), 1);
  EXPECT_THAT(Message(*sides_[0]->link.drop_reason()),
              HasSubstr("refused or failed what it was told 1 times in a row, the last time with: "
                        "the worker says \"not today\""));
  ExpectClean();
}

TEST_F(ReplicaTrustTest, AWorkerThatServedAndThenRefusesFailsOneRequestAtMost) {
  Start(2);
  Connect(0);
  Connect(1);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(SubmitNext());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(RunStep(0));
  RunWhileTheFirstRefuses();
  EXPECT_LE(CountFailed(clients), 1u);
  EXPECT_GT(num_given_up_, 0);
  ExpectClean();
}

TEST_F(ReplicaTrustTest, WithoutAnotherWorkerARefusedRequestEndsInTheEnd) {
  Start(1);
  Connect(0);
  const auto client = SubmitNext();
  RunWhileTheFirstRefuses();
  ExpectEnd(*client, absl::StatusCode::kInternal);
  EXPECT_EQ(num_given_up_, 4);
  ExpectClean();
}

TEST_F(ReplicaTrustTest, AWorkerThatFailsEveryRowIsGivenUp) {
  config_.scheduler.max_steps_in_flight = 1;  // so that no step runs a row that has failed
  Start(2);
  Connect(0);
  Connect(1);
  std::vector<std::unique_ptr<Client>> clients;
  while (clients.size() < 48 && state(0) == WorkerState::kReady) {
    clients.push_back(SubmitNext());
    while (FailStep(0) || RunStep(1)) {
    }
  }
  EXPECT_EQ(state(0), WorkerState::kLost);
  EXPECT_EQ(CircuitIs(0, CircuitState::kOpen), 1);
  EXPECT_EQ(CountFailed(clients), CircuitBreaker::kMaxFirstFaults);
  ExpectClean();
}

TEST_F(ReplicaTrustTest, OneRequestWhoseRowsAllFailIsOneFault) {
  config_.scheduler.max_steps_in_flight = 1;
  Start(1);
  Connect(0);
  const auto first = SubmitNext();
  while (RunStep(0)) {
  }
  ExpectComplete(*first);
  const auto request = MakeRequest({1, 2, 3}, 5);
  request->num_samples = CircuitBreaker::kMaxFaults;
  const auto client = Submit(request);
  client->tokens.resize(request->num_samples);
  client->ends.resize(request->num_samples);
  ASSERT_TRUE(FailStep(0));
  EXPECT_EQ(state(0), WorkerState::kReady);
  const auto last = SubmitNext();
  while (RunStep(0)) {
  }
  ExpectComplete(*last);
  ExpectClean();
}

TEST_F(ReplicaTrustTest, RequestsWhoseRowsFailInOneStepAreAFaultEach) {
  config_.scheduler.max_steps_in_flight = 1;
  Start(1);
  Connect(0);
  std::vector<std::unique_ptr<Client>> clients;
  clients.push_back(SubmitNext());  // is in the step that was sent at once
  while (clients.size() <= CircuitBreaker::kMaxFaults) clients.push_back(SubmitNext());
  ASSERT_TRUE(RunStep(0));
  ASSERT_EQ(state(0), WorkerState::kReady);
  ASSERT_TRUE(FailStep(0));
  EXPECT_EQ(state(0), WorkerState::kLost);
}

}  // namespace
}  // namespace lockstep::router
