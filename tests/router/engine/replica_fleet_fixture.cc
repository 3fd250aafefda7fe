#include "tests/router/engine/replica_fleet_fixture.h"

namespace lockstep::router::testing {

void ReplicaFleetTest::Occupy(uint32_t i) {
  Side& side = *sides_[i];
  side.replica = std::make_unique<Replica>(config_, MakeFcfsPolicy(),
                                           ReplicaPlace{.clock = &clock_,
                                                        .link = &side.link,
                                                        .metrics = &metrics_,
                                                        .worker = WorkerName(i),
                                                        .fleet = fleet_.get(),
                                                        .index = i,
                                                        .agreement = agreement_.get()});
}

void ReplicaFleetTest::Pump() {
  for (size_t round = 0; round <= sides_.size(); ++round) {
    for (uint32_t i = 0; i < sides_.size(); ++i) {
      replica(i).Process(fleet_->inbox(i).Take());
    }
  }
}

std::shared_ptr<Request> ReplicaFleetTest::MakeRequest(std::vector<TokenId> prompt,
                                                       uint32_t max_new_tokens) {
  auto request = std::make_shared<Request>();
  request->key = next_key_++;
  request->id = "test";
  request->arrival = clock_.Now();
  request->prompt_tokens = std::move(prompt);
  request->sampling.temperature = 0;
  request->sampling.max_new_tokens = max_new_tokens;
  return request;
}

std::unique_ptr<Client> ReplicaFleetTest::Submit(std::shared_ptr<const Request> request,
                                                 std::function<void()> on_ready) {
  auto client = std::make_unique<Client>();
  client->request = request;
  client->outbox = std::make_shared<Outbox>(1 << 20, std::move(on_ready));
  client->tokens.resize(1);
  client->ends.resize(1);
  Rejection rejection{};
  fleet_->Submit({.request = request,
                  .outbox = client->outbox,
                  .ticket = *admission_->TryAdmit(1, "", rejection),
                  .trace = trace_});
  Pump();
  return client;
}

void ReplicaFleetTest::ExpectKeepsWhatRunsAndGivesTheRestAway(const std::function<void()>& leave) {
  config_.scheduler.max_running_sequences = 1;
  Start(2);
  Connect(0);
  const auto running = Submit({1, 2, 3}, 8);
  const auto waiting = Submit({4, 5}, 5);
  RunSteps(0, 1);
  Connect(1);
  leave();
  EXPECT_EQ(state(0), WorkerState::kDraining);
  EXPECT_EQ(num_live(0), 1u);
  EXPECT_EQ(num_live(1), 1u);
  const auto later = Submit({6, 7}, 5);
  EXPECT_EQ(num_live(1), 2u);
  RunUntilIdle();
  for (Client* client : {running.get(), waiting.get(), later.get()}) ExpectComplete(*client);
  ExpectClean();
}

void ReplicaFleetTest::ExpectClean() {
  for (uint32_t i = 0; i < sides_.size(); ++i) {
    EXPECT_EQ(num_live(i), 0u);
    EXPECT_EQ(replica(i).board().status().scheduler.used_blocks, 0u);
    EXPECT_EQ(replica(i).board().status().scheduler.fenced_blocks, 0u);
  }
  EXPECT_EQ(metrics_.running_requests->Value(), 0);
  EXPECT_EQ(metrics_.queue_tokens->Value(), 0);
  EXPECT_EQ(admission_->counts().waiting_requests, 0u);
}

}  // namespace lockstep::router::testing
