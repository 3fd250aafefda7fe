#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/integration/process_fixture.h"

namespace lockstep::testing {

// Several workers behind one router, as processes; workers are lost while clients stream.
class FleetTest : public ProcessTest {
 protected:
  static constexpr uint32_t kNumStreams = 12;
  static constexpr uint32_t kLongAnswer = 200;  // tokens; the model's context is 256

  void StartWorkersAndRouter(const std::vector<std::string>& router_flags = {}) {
    std::string addresses;
    for (const std::vector<std::string>& flags : worker_flags_) {
      auto worker = LaunchWorker(OwnLoopback() + ":0", kModel, flags);
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers_.push_back(*std::move(worker));
      addresses += (addresses.empty() ? "" : ",") + workers_.back().grpc_address();
    }
    ASSERT_NO_FATAL_FAILURE(StartRouterOf(addresses, router_flags));
    for (const ChildProcess& worker : workers_) ExpectStateBecomes(worker, "ready");
  }

  void RestartWorker(size_t i) {
    auto worker = LaunchWorker(workers_[i].grpc_address(), kModel, worker_flags_[i]);
    ASSERT_TRUE(worker.ok()) << worker.status();
    workers_[i] = *std::move(worker);
    ExpectStateBecomes(workers_[i], "ready");
  }

  // Every other one is sampled, and every third asks for two answers.
  static lockstep::v1::GenerateRequest RequestOf(uint32_t stream) {
    auto request = Request({stream + 1, stream + 2, 7, 11, 13, 17, 19}, kLongAnswer);
    if (stream % 2 == 1) {
      request.mutable_sampling()->set_temperature(1);
      request.mutable_sampling()->set_seed(stream);
    }
    if (stream % 3 == 2) request.mutable_sampling()->set_n(2);
    return request;
  }

  // Clients stream, one request after the other, while `disturb` runs. Each of their answers must
  // be that of an undisturbed run.
  template <typename Disturb>
  void ExpectInvisible(Disturb disturb) {
    std::vector<Answer> undisturbed;
    for (uint32_t i = 0; i < kNumStreams; ++i) undisturbed.push_back(Generate(RequestOf(i)));
    std::atomic<bool> done = false;
    std::atomic<uint32_t> num_answers = 0;
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kNumStreams; ++i) {
      clients.emplace_back([&, i] {
        do {
          const Answer answer = Generate(RequestOf(i));
          ++num_answers;
          EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
          EXPECT_EQ(answer.tokens, undisturbed[i].tokens) << "stream " << i;
          EXPECT_EQ(answer.finishes.size(), undisturbed[i].finishes.size()) << "stream " << i;
        } while (!done.load());
      });
    }
    disturb();
    done.store(true);
    for (std::thread& client : clients) client.join();
    EXPECT_GE(num_answers.load(), kNumStreams);
    EXPECT_GE(Metric("lockstep_router_requests_retried_total{model=\"tiny-llama\",outcome="
                     "\"resumed\"}"),
              1)
        << "no request was with a worker that was lost";
    EXPECT_EQ(Metric("lockstep_router_requests_retried_total{model=\"tiny-llama\",outcome="
                     "\"failed\"}"),
              0);
    ExpectNothingHeld();
  }

  // Each of them twice.
  void KillWorkersInTurn() {
    for (size_t kill = 0; kill < 2 * workers_.size(); ++kill) {
      const size_t victim = kill % workers_.size();
      workers_[victim].Signal(SIGKILL);
      ExpectStateBecomes(workers_[victim], "lost");
      ASSERT_NO_FATAL_FAILURE(RestartWorker(victim));
    }
  }

  std::vector<std::vector<std::string>> worker_flags_ = {{}, {}, {}};
  std::vector<ChildProcess> workers_;
};

}  // namespace lockstep::testing
