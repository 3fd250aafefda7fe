#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/runtime/named_thread.h"
#include "router/engine/engine.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/engine/engine_reader.h"
#include "tests/router/engine/fake_worker.h"
#include "tests/router/strands/strand_thread.h"

namespace lockstep::router::testing {

using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::ThreadedLink;

inline const FakeModelOptions kModel = {.max_context_tokens = 128, .num_blocks = 48};

inline std::vector<TokenId> RandomPrompt(std::mt19937& random) {
  std::vector<TokenId> prompt(1 + random() % 20);
  for (TokenId& token : prompt) token = random() % kModel.vocab_size;
  return prompt;
}

class EngineTest : public ::testing::Test {
 protected:
  // The log is made before there are threads, as in every program of ours: its library is not
  // instrumented, so ThreadSanitizer cannot see that they do not make it at the same time.
  EngineTest() { spdlog::default_logger(); }

  // Returns once the first worker is there.
  void StartEngine(EngineConfig config = {}, uint32_t num_replicas = 1) {
    std::vector<ReplicaParts> parts;
    for (uint32_t i = 0; i < num_replicas; ++i) {
      auto link = std::make_unique<ThreadedLink>(kModel);
      links_.push_back(link.get());
      parts.push_back({.worker = WorkerName(i),
                       .link = std::move(link),
                       .policy = MakeFcfsPolicy(),
                       .runner = std::make_shared<StrandThread>()});
    }
    link_ = links_.front();
    engine_ = std::make_unique<Engine>(config, std::move(parts), &clock_, &metrics_,
                                       [this] { OnReadinessChange(); });
    WaitForReadiness(true);
  }

  static std::string WorkerName(uint32_t i) { return "fake:" + std::to_string(i); }
  double NumRestarts() {
    double sum = 0;
    for (uint32_t i = 0; i < links_.size(); ++i) {
      sum += metrics_.ForWorker(WorkerName(i)).restarts_total->Value();
    }
    return sum;
  }

  void OnReadinessChange() {
    MutexLock lock(mutex_);
    ++num_changes_;
    changed_.NotifyAll();
  }

  // A request's end may be read, and its place given back, just before the loop tells of the
  // counts.
  void WaitUntilNothingIsLive() {
    EXPECT_TRUE(engine_->admission().WaitUntilNoneOpen(absl::Seconds(60)));
    const Instant give_up = clock_.Now() + absl::Seconds(60);
    while (engine_->replica_status().live_requests > 0 && clock_.Now() < give_up) {
      std::this_thread::yield();
    }
  }

  // Readiness changes are announced, so nobody has to poll for them.
  void WaitForReadiness(bool ready) {
    MutexLock lock(mutex_);
    while (num_changes_ == 0 || engine_->ready() != ready) changed_.Wait(mutex_);
  }

  absl::StatusOr<Running> Submit(std::vector<TokenId> prompt, uint32_t max_new_tokens) {
    auto ticket = engine_->Admit(prompt.size(), "");
    if (!ticket.ok()) return ticket.status();
    auto request = std::make_shared<Request>();
    request->key = engine_->NextKey();
    request->arrival = clock_.Now();
    request->prompt_tokens = std::move(prompt);
    request->sampling.temperature = 0;
    request->sampling.max_new_tokens = max_new_tokens;
    Running running;
    running.request = request;
    running.outbox = engine_->MakeOutbox(running.reader->OnReady());
    engine_->fleet().Submit(
        {.request = request, .outbox = running.outbox, .ticket = *std::move(ticket)});
    return running;
  }

  void ExpectNothingHeld() {
    WaitUntilNothingIsLive();
    EXPECT_EQ(engine_->replica_status().live_requests, 0u);
    for (const ReplicaStatus& status : engine_->replica_statuses()) {
      EXPECT_EQ(status.scheduler.used_blocks, 0u) << status.worker;
    }
    EXPECT_EQ(engine_->admission().counts().waiting_tokens, 0u);
  }

  // Four clients at once, each with random requests one after the other, of which every fifth is
  // cancelled half-way; all get what the model says. `on_end` is told how many had ended before, by
  // the clients' threads.
  void RunClients(int requests_each, const std::function<void(int)>& on_end) {
    constexpr int kClients = 4;
    std::atomic<int> num_ended = 0;
    std::vector<NamedThread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back("client", [this, c, requests_each, &on_end, &num_ended] {
        std::mt19937 random(c);
        for (int i = 0; i < requests_each; ++i) {
          ASSERT_NO_FATAL_FAILURE(RunRequest(random, /*cancels=*/i % 5 == 4));
          on_end(num_ended.fetch_add(1));
        }
      });
    }
  }

  void RunRequest(std::mt19937& random, bool cancels) {
    const std::vector<TokenId> prompt = RandomPrompt(random);
    const uint32_t length = 1 + random() % 30;
    absl::StatusOr<Running> running = Submit(prompt, length);
    ASSERT_TRUE(running.ok()) << running.status();
    Reader& reader = *running->reader;
    if (cancels) {
      reader.ReadUntil(*running->outbox, [&] { return reader.tokens.size() > length / 2; });
      engine_->fleet().Cancel({.request = running->request->key, .cause = CancelCause::kClient});
    }
    reader.ReadAll(*running->outbox);
    const std::vector<TokenId> expected = lockstep::testing::GreedyTokens(kModel, prompt, length);
    if (reader.end->ok()) {
      EXPECT_THAT(reader.tokens, ::testing::ElementsAreArray(expected));
    } else {
      EXPECT_EQ(reader.end->code(), absl::StatusCode::kCancelled);
      EXPECT_LE(reader.tokens.size(), expected.size());
    }
  }

  RealClock clock_;
  prometheus::Registry registry_;
  RouterMetrics metrics_{registry_, "fake"};
  Mutex mutex_;
  CondVar changed_;
  int num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ThreadedLink*> links_;
  ThreadedLink* link_ = nullptr;  // the first
  std::unique_ptr<Engine> engine_;
};

}  // namespace lockstep::router::testing
