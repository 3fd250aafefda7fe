#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "router/engine/replica.h"
#include "router/fleet/fleet.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/engine/replica_fixture.h"

namespace lockstep::router::testing {

// Replicas that share a fleet; links, workers, clock and the order of everything are driven by
// hand.
class ReplicaFleetTest : public ::testing::Test {
 protected:
  struct Side {
    FakeWorker worker;
    ManualLink link{worker};
    std::unique_ptr<Replica> replica;
  };

  // Nobody is connected at first.
  void Start(uint32_t num_replicas, PlacementConfig placement = {}, uint32_t max_replicas = 0) {
    fleet_ = std::make_unique<Fleet>(placement, num_replicas, max_replicas);
    for (uint32_t i = 0; i < num_replicas; ++i) {
      sides_.push_back(std::make_unique<Side>());
      Occupy(i);
    }
  }
  // Another replica, on another worker, gets the seat.
  void Occupy(uint32_t i);
  static std::string WorkerName(uint32_t i) { return "fake:" + std::to_string(i); }

  FakeWorker& worker(uint32_t i) { return sides_[i]->worker; }
  Replica& replica(uint32_t i) { return *sides_[i]->replica; }
  WorkerState state(uint32_t i) { return replica(i).board().worker_state(); }
  double CircuitIs(uint32_t i, CircuitState state) {
    return RouterMetrics::At(metrics_.ForWorker(WorkerName(i)).circuit, state).Value();
  }

  void Post(uint32_t i, LinkEvent event) {
    fleet_->inbox(i).OnLinkEvent(std::move(event));
    Pump();
  }
  void Connect(uint32_t i) { Post(i, worker(i).Claim()); }
  void Lose(uint32_t i) {
    Post(i, sides_[i]->link.Break(absl::UnavailableError("the stream broke")));
  }
  // Only `i` learns of it; what it hands over waits at the others.
  void LoseUnnoticed(uint32_t i) {
    fleet_->inbox(i).OnLinkEvent(sides_[i]->link.Break(absl::UnavailableError("the stream broke")));
    replica(i).Process(fleet_->inbox(i).Take());
  }
  void Restart(uint32_t i) {
    worker(i).Restart();
    Connect(i);
  }

  // Every replica processes what is in its inbox, until nothing is left anywhere: one that hands
  // something over has posted it by then.
  void Pump();
  void AdvanceBy(absl::Duration by) {
    clock_.Advance(by);
    Pump();
  }

  bool RunStep(uint32_t i) {
    std::optional<LinkResult> result = sides_[i]->link.RunNext();
    if (!result.has_value()) return false;
    Post(i, *std::move(result));
    return true;
  }
  bool RefuseStep(uint32_t i) {
    std::optional<LinkResult> refused = sides_[i]->link.RefuseNext();
    if (!refused.has_value()) return false;
    Post(i, *std::move(refused));
    return true;
  }
  void RunSteps(uint32_t i, int count) {
    for (int step = 0; step < count; ++step) ASSERT_TRUE(RunStep(i));
  }
  void RunUntilIdle() {
    for (bool any = true; any;) {
      any = false;
      for (uint32_t i = 0; i < sides_.size(); ++i) any |= RunStep(i);
    }
  }

  std::unique_ptr<Client> Submit(
      std::vector<TokenId> prompt, uint32_t max_new_tokens,
      std::function<void()> on_ready = [] {}) {
    return Submit(MakeRequest(std::move(prompt), max_new_tokens), std::move(on_ready));
  }
  std::shared_ptr<Request> MakeRequest(std::vector<TokenId> prompt, uint32_t max_new_tokens);
  std::unique_ptr<Client> Submit(
      std::shared_ptr<const Request> request, std::function<void()> on_ready = [] {});

  // With the text of an undisturbed run: no token twice, none missing.
  void ExpectComplete(Client& client) {
    client.Read();
    EXPECT_EQ(client.end, absl::OkStatus());
    EXPECT_EQ(client.tokens[0],
              ::lockstep::testing::GreedyTokens({}, client.request->prompt_tokens,
                                                client.request->sampling.max_new_tokens));
  }
  void ExpectEnd(Client& client, absl::StatusCode code) {
    client.Read();
    ASSERT_TRUE(client.end.has_value());
    EXPECT_EQ(client.end->code(), code) << *client.end;
  }
  // Of two replicas; `leave` has the first begin to go, as its one slot runs something and another
  // request waits.
  void ExpectKeepsWhatRunsAndGivesTheRestAway(const std::function<void()>& leave);
  uint32_t num_live(uint32_t i) { return replica(i).board().status().live_requests; }
  double NumRetried(RetryOutcome outcome) const {
    return RouterMetrics::At(metrics_.requests_retried_total, outcome).Value();
  }
  void ExpectClean();

  FakeClock clock_{kStart};
  ReplicaConfig config_;
  prometheus::Registry registry_;
  RouterMetrics metrics_{registry_, "fake"};
  std::shared_ptr<Admission> admission_ = Admission::Make({});
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<WorkerAgreement> agreement_;  // none unless a test makes one before Start
  std::vector<std::unique_ptr<Side>> sides_;
  RequestKey next_key_ = 1;
  std::shared_ptr<RequestTrace> trace_;  // of the next request; null: it is not recorded
};

}  // namespace lockstep::router::testing
