#include "router/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/named_thread.h"
#include "router/core/policies.h"
#include "tests/router/engine/fake_worker.h"

// The engine with its threads, as ThreadSanitizer sees it.
namespace lockstep::router {
namespace {

using ::lockstep::testing::FakeModelOptions;
using ::lockstep::testing::GreedyTokens;
using ::lockstep::testing::ThreadedLink;
using ::testing::ElementsAreArray;

const FakeModelOptions kModel = {.max_context_tokens = 128, .num_blocks = 48};

// Collects what a request's outbox says, on whatever thread waits for it.
class Reader : public std::enable_shared_from_this<Reader> {
 public:
  // Keeps the reader alive: the loop may tell of an end that was read already.
  std::function<void()> OnReady() {
    return [self = shared_from_this()] {
      MutexLock lock(self->mutex_);
      self->ready_ = true;
      self->changed_.NotifyAll();
    };
  }

  // Takes until `enough` says so or the request ends.
  template <typename Enough>
  void ReadUntil(Outbox& outbox, Enough enough) {
    while (!end.has_value() && !enough()) {
      {
        MutexLock lock(mutex_);
        while (!ready_) changed_.Wait(mutex_);
        ready_ = false;
      }
      RequestOutput output = outbox.Take();
      for (SampleOutput& sample : output.samples) {
        tokens.insert(tokens.end(), sample.tokens.begin(), sample.tokens.end());
        if (sample.end.has_value()) sample_end = sample.end;
      }
      if (output.end.has_value()) end = output.end;
    }
  }
  void ReadAll(Outbox& outbox) {
    ReadUntil(outbox, [] { return false; });
  }

  std::vector<TokenId> tokens;
  std::optional<SampleEnd> sample_end;
  std::optional<absl::Status> end;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
};

struct Running {
  std::shared_ptr<const Request> request;
  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<Reader> reader = std::make_shared<Reader>();
};

class EngineTest : public ::testing::Test {
 protected:
  void StartEngine(EngineConfig config = {}) {
    auto link = std::make_unique<ThreadedLink>(kModel);
    link_ = link.get();
    engine_ = std::make_unique<Engine>(config, MakeFcfsPolicy(), std::move(link), &clock_,
                                       &metrics_, [this] { OnReadinessChange(); });
    WaitForReadiness(true);
  }

  void OnReadinessChange() {
    MutexLock lock(mutex_);
    ++num_changes_;
    changed_.NotifyAll();
  }

  // Readiness changes are announced, so nobody has to poll for them.
  void WaitForReadiness(bool ready) {
    MutexLock lock(mutex_);
    while (num_changes_ == 0 || engine_->ready() != ready) changed_.Wait(mutex_);
  }

  absl::StatusOr<Running> Submit(std::vector<TokenId> prompt, uint32_t max_new_tokens) {
    auto ticket = engine_->Admit(prompt.size());
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
    engine_->Submit({.request = request, .outbox = running.outbox, .ticket = *std::move(ticket)});
    return running;
  }

  RealClock clock_;
  prometheus::Registry registry_;
  RouterMetrics metrics_{registry_, "fake", "fake:1"};
  Mutex mutex_;
  CondVar changed_;
  int num_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  ThreadedLink* link_ = nullptr;
  std::unique_ptr<Engine> engine_;
};

std::vector<TokenId> RandomPrompt(std::mt19937& random) {
  std::vector<TokenId> prompt(1 + random() % 20);
  for (TokenId& token : prompt) token = random() % kModel.vocab_size;
  return prompt;
}

TEST_F(EngineTest, ManyClientsWhileTheWorkerDiesAgainAndAgain) {
  StartEngine();
  constexpr int kClients = 4;
  constexpr int kRequestsEach = 25;
  std::atomic<int> finished = 0;
  {
    std::vector<NamedThread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back("client", [this, c, &finished] {
        std::mt19937 random(c);
        for (int i = 0; i < kRequestsEach; ++i) {
          const std::vector<TokenId> prompt = RandomPrompt(random);
          const uint32_t length = 1 + random() % 30;
          absl::StatusOr<Running> running = Submit(prompt, length);
          ASSERT_TRUE(running.ok()) << running.status();
          if (i % 5 == 4) {
            running->reader->ReadUntil(*running->outbox,
                                       [&] { return running->reader->tokens.size() > length / 2; });
            engine_->Cancel(running->request->key, CancelCause::kClient);
          }
          running->reader->ReadAll(*running->outbox);
          const std::vector<TokenId> expected = GreedyTokens(kModel, prompt, length);
          if (running->reader->end->ok()) {
            EXPECT_THAT(running->reader->tokens, ElementsAreArray(expected));
          } else {
            EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kCancelled);
            EXPECT_LE(running->reader->tokens.size(), expected.size());
          }
          // A restart for every few requests, whatever the others are doing then.
          if (finished.fetch_add(1) % 7 == 6) link_->Restart();
        }
      });
    }
  }
  EXPECT_GE(metrics_.worker_restarts_total->Value(), 10);
  EXPECT_TRUE(engine_->WaitUntilDrained(absl::Seconds(60)));
  EXPECT_EQ(engine_->replica_status().live_requests, 0u);
  EXPECT_EQ(engine_->replica_status().scheduler.used_blocks, 0u);
  EXPECT_EQ(engine_->admission_counts().waiting_tokens, 0u);
}

TEST_F(EngineTest, BehindAWorkerThatDrainsItIsReadyForTheNext) {
  StartEngine();
  link_->Drain();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  running->reader->ReadAll(*running->outbox);
  ASSERT_EQ(engine_->replica_status().worker_state, WorkerState::kDraining);
  EXPECT_TRUE(engine_->ready());
  const absl::StatusOr<Running> waiting = Submit({4, 5}, 10);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  link_->Restart();
  waiting->reader->ReadAll(*waiting->outbox);
  EXPECT_THAT(waiting->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {4, 5}, 10)));
}

TEST_F(EngineTest, DrainLetsRunningRequestsFinishAndRefusesNewOnes) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_->StartDrain();
  EXPECT_FALSE(engine_->ready());
  EXPECT_EQ(Submit({1}, 1).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kDraining).Value(), 1);
  EXPECT_FALSE(engine_->WaitUntilDrained(absl::ZeroDuration()));
  link_->Resume();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end, absl::OkStatus());
  EXPECT_THAT(running->reader->tokens, ElementsAreArray(GreedyTokens(kModel, {1, 2, 3}, 10)));
  EXPECT_TRUE(engine_->WaitUntilDrained(absl::Seconds(60)));
}

TEST_F(EngineTest, CancelAllEndsTheDrain) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_->StartDrain();
  engine_->CancelAll();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(running->reader->sample_end->reason, FinishReason::kAborted);
  EXPECT_TRUE(engine_->WaitUntilDrained(absl::Seconds(60)));
}

TEST_F(EngineTest, AFullQueueRefusesAndRecovers) {
  EngineConfig config;
  config.admission.max_waiting_requests = 3;
  StartEngine(config);
  link_->Kill();
  WaitForReadiness(false);
  // Without a worker, and within the grace, requests wait.
  std::vector<Running> waiting;
  for (TokenId token = 1; token <= 3; ++token) {
    absl::StatusOr<Running> running = Submit({token}, 5);
    ASSERT_TRUE(running.ok()) << running.status();
    waiting.push_back(*std::move(running));
  }
  EXPECT_EQ(Submit({4}, 5).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RouterMetrics::At(metrics_.requests_rejected_total, Rejection::kQueueRequests).Value(),
            1);
  link_->Restart();
  for (Running& running : waiting) {
    running.reader->ReadAll(*running.outbox);
    EXPECT_EQ(running.reader->end, absl::OkStatus());
  }
  EXPECT_TRUE(Submit({4}, 5).ok());
}

TEST_F(EngineTest, DestructionEndsWhatIsLeft) {
  StartEngine();
  link_->Pause();
  const absl::StatusOr<Running> running = Submit({1, 2, 3}, 10);
  ASSERT_TRUE(running.ok());
  engine_.reset();
  running->reader->ReadAll(*running->outbox);
  EXPECT_EQ(running->reader->end->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::router
