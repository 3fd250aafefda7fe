// Faults over real processes and loopback gRPC: clients that leave, deadlines, lost workers, bad
// input, full queues, drains.
#include <absl/strings/str_split.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "tests/integration/process_fixture.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLongAnswer = 230;  // tokens; the model's context is 256

std::vector<uint32_t> Prompt(uint32_t first) { return {first, first + 1, first + 2, 7, 11, 13}; }

std::multimap<grpc::string_ref, grpc::string_ref>::size_type CountRetryHints(
    const grpc::ClientContext& context) {
  return context.GetServerTrailingMetadata().count("retry-after-ms");
}

TEST_F(ProcessTest, StreamsTheSameTokensAgainFromTheCache) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  const auto request = Request(std::vector<uint32_t>(40, 17), 20);
  const Answer first = Generate(request);
  const Answer second = Generate(request);
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  ASSERT_EQ(first.tokens.size(), 1u);
  EXPECT_EQ(first.tokens[0].size(), 20u);
  EXPECT_EQ(first.tokens, second.tokens);
  EXPECT_EQ(first.cached_tokens, 0u);
  EXPECT_EQ(second.cached_tokens, 32u);
  ASSERT_EQ(first.finishes.size(), 1u);
  EXPECT_EQ(first.finishes[0].reason(), lockstep::v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(first.finishes[0].usage().completion_tokens(), 20u);
}

// The text turns in circles, so n-grams find drafts.
TEST_F(ProcessTest, DraftsChangeNoTokenAndARequestMayDoWithout) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  lockstep::v1::GenerateRequest request = Request(std::vector<uint32_t>(40, 17), 200);
  const Answer drafted = Generate(request);
  ASSERT_TRUE(drafted.status.ok()) << drafted.status.error_message();
  request.set_speculation(lockstep::v1::SPECULATION_OFF);
  const Answer plain = Generate(request);
  EXPECT_EQ(drafted.tokens, plain.tokens);
  ASSERT_EQ(drafted.finishes.size(), 1u);
  ASSERT_EQ(plain.finishes.size(), 1u);
  const uint32_t num_accepted = drafted.finishes[0].usage().accepted_draft_tokens();
  EXPECT_GT(num_accepted, 0u);
  EXPECT_EQ(plain.finishes[0].usage().accepted_draft_tokens(), 0u);
  EXPECT_EQ(plain.finishes[0].usage().rejected_draft_tokens(), 0u);
  EXPECT_EQ(Metric("lockstep_router_spec_decode_accepted_tokens_total{model=\"tiny-llama\"}"),
            num_accepted);
}

TEST_F(ProcessTest, EveryListenerServesAllOfTheApi) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--listen", "127.0.0.1:0", "--http-listen=127.0.0.1:0"}));
  // The fixture names the first listener.
  std::vector<std::string> addresses = {router_->grpc_address()};
  for (const absl::string_view further : absl::StrSplit(router_->http_address(), ',')) {
    addresses.emplace_back(further);
  }
  EXPECT_EQ(addresses.size(), 3u);
  for (const std::string& address : addresses) {
    EXPECT_TRUE(HttpGet(address, "/health").ok()) << address;
    const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    lockstep::v1::Model model;
    const auto stub = lockstep::v1::Generation::NewStub(channel);
    EXPECT_TRUE(stub->GetModel(&context, {}, &model).ok()) << address;
  }
}

TEST_F(ProcessTest, ClientThatCancelsMidStreamGivesItsBlocksBack) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  const Answer answer = Generate(Request(Prompt(3), kLongAnswer), std::nullopt,
                                 [](grpc::ClientContext& context, size_t) { context.TryCancel(); });
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::CANCELLED);
  ExpectNothingHeld();
  EXPECT_TRUE(Generate(Request(Prompt(3), 5)).status.ok());
}

TEST_F(ProcessTest, DeadlineThatPassesEndsTheRequest) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  worker_->Signal(SIGSTOP);  // no step ends before the deadline
  const Answer answer = Generate(Request(Prompt(3), kLongAnswer), absl::Milliseconds(300));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  worker_->Signal(SIGCONT);
  ExpectNothingHeld();
  EXPECT_TRUE(Generate(Request(Prompt(3), 5)).status.ok());
}

// Streams on many threads at once; `at_token` runs once, when the first stream has some tokens.
class ConcurrentStreams {
 public:
  template <typename GenerateOne>
  ConcurrentStreams(int count, GenerateOne generate_one) : answers_(count), started_(count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, i, generate_one] {
        bool first = true;
        answers_[i] = generate_one(i, [&](grpc::ClientContext&, size_t) {
          if (first) started_.count_down();
          first = false;
        });
        if (first) started_.count_down();
      });
    }
  }
  // Until every stream has its first tokens (or has ended).
  void WaitForFirstTokens() { started_.wait(); }
  const std::vector<Answer>& Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return answers_;
  }

 private:
  std::vector<Answer> answers_;
  std::latch started_;
  std::vector<std::thread> threads_;
};

TEST_F(ProcessTest, WorkerKilledMidStepAndRestartedIsInvisible) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  constexpr int kNumStreams = 12;
  std::vector<Answer> undisturbed;
  for (int i = 0; i < kNumStreams; ++i) {
    undisturbed.push_back(Generate(Request(Prompt(i + 1), kLongAnswer)));
  }
  ConcurrentStreams streams(kNumStreams, [this](int i, const auto& on_delta) {
    return Generate(Request(Prompt(i + 1), kLongAnswer), std::nullopt, on_delta);
  });
  streams.WaitForFirstTokens();
  worker_->Signal(SIGKILL);
  RestartWorker();
  const std::vector<Answer>& answers = streams.Join();
  for (int i = 0; i < kNumStreams; ++i) {
    EXPECT_TRUE(answers[i].status.ok()) << answers[i].status.error_message();
    EXPECT_EQ(answers[i].tokens, undisturbed[i].tokens) << "stream " << i;
  }
  EXPECT_GE(
      Metric("lockstep_router_requests_retried_total{model=\"tiny-llama\",outcome=\"resumed\"}"), 1)
      << "every stream had ended before the worker died";
  ExpectNothingHeld();
}

TEST_F(ProcessTest, WorkerGoneForGoodIsAClearError) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--failover_wait=500ms", "--no_worker_grace=0s"}));
  worker_->Signal(SIGSTOP);
  ConcurrentStreams streams(1, [this](int i, const auto& on_delta) {
    return Generate(Request(Prompt(i + 1), kLongAnswer), std::nullopt, on_delta);
  });
  ExpectMetricBecomes("lockstep_router_running_requests{model=\"tiny-llama\"}", 1);
  worker_->Signal(SIGKILL);
  for (const Answer& answer : streams.Join()) {
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(answer.status.error_message(), HasSubstr("worker"));
  }
  ExpectNothingHeld();
  EXPECT_EQ(Generate(Request(Prompt(1), 5)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ProcessTest, BadInputNamesItsField) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  auto top_p = Request(Prompt(1), 5);
  top_p.mutable_sampling()->set_top_p(1.5f);
  auto token = Request({1, 2, 100000}, 5);
  auto adapter = Request(Prompt(1), 5);
  adapter.set_adapter("some-lora");
  auto too_long = Request(std::vector<uint32_t>(300, 5), 5);
  const struct {
    lockstep::v1::GenerateRequest request;
    grpc::StatusCode code;
    std::string words;
  } cases[] = {
      {top_p, grpc::StatusCode::INVALID_ARGUMENT, "sampling.top_p"},
      {token, grpc::StatusCode::INVALID_ARGUMENT, "token_ids.ids[2]"},
      {adapter, grpc::StatusCode::UNIMPLEMENTED, "adapter"},
      {too_long, grpc::StatusCode::INVALID_ARGUMENT,
       "maximum context length is 256 tokens. However, you requested 305 tokens"},
      {lockstep::v1::GenerateRequest(), grpc::StatusCode::INVALID_ARGUMENT, "prompt"},
  };
  for (const auto& bad : cases) {
    const Answer answer = Generate(bad.request);
    EXPECT_EQ(answer.status.error_code(), bad.code) << bad.words;
    EXPECT_THAT(answer.status.error_message(), HasSubstr(bad.words));
  }
  EXPECT_TRUE(Generate(Request(Prompt(1), 5)).status.ok());
}

TEST_F(ProcessTest, OversizedMessageIsRefusedAndHurtsNobody) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  lockstep::v1::GenerateRequest request;
  request.set_text(std::string(64u << 20, 'a'));
  EXPECT_EQ(Generate(request).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Generate(Request(Prompt(1), 5)).status.ok());
  ExpectNothingHeld();
}

TEST_F(ProcessTest, FullQueueIsRefusedWithAHintAndTheRestFinish) {
  ASSERT_NO_FATAL_FAILURE(StartFleet({"--max_waiting_requests=2", "--max_running_sequences=1"}));
  worker_->Signal(SIGSTOP);  // nothing leaves the queue until all have knocked
  ConcurrentStreams running(1, [this](int, const auto& on_delta) {
    return Generate(Request(Prompt(100), 4), std::nullopt, on_delta);
  });
  ExpectMetricBecomes("lockstep_router_running_requests{model=\"tiny-llama\"}", 1);
  std::atomic<int> refused = 0;
  std::atomic<int> hinted = 0;
  ConcurrentStreams streams(7, [&](int i, const auto&) {
    grpc::ClientContext context;
    auto reader = stub().Generate(&context, Request(Prompt(i + 1), 4));
    lockstep::v1::GenerateResponse response;
    while (reader->Read(&response)) {
    }
    Answer answer;
    answer.status = reader->Finish();
    if (answer.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      hinted += static_cast<int>(CountRetryHints(context));
      if (++refused == 5) worker_->Signal(SIGCONT);
    }
    return answer;
  });
  int num_ok = 0;
  for (const Answer& answer : streams.Join()) num_ok += answer.status.ok();
  EXPECT_TRUE(running.Join()[0].status.ok());
  EXPECT_EQ(refused, 5);
  EXPECT_EQ(hinted, 5);
  EXPECT_EQ(num_ok, 2);
  ExpectNothingHeld();
}

TEST_F(ProcessTest, SigtermLetsRunningRequestsFinish) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  const Answer undisturbed = Generate(Request(Prompt(1), kLongAnswer));
  ConcurrentStreams streams(8, [this](int, const auto& on_delta) {
    return Generate(Request(Prompt(1), kLongAnswer), std::nullopt, on_delta);
  });
  streams.WaitForFirstTokens();
  router_->Signal(SIGTERM);
  for (const Answer& answer : streams.Join()) {
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.tokens, undisturbed.tokens);
  }
  EXPECT_EQ(router_->Wait(absl::Seconds(30)), 0);
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->Wait(absl::Seconds(30)), 0);
}

TEST_F(ProcessTest, SecondSigtermEndsTheRouterAtOnce) {
  ASSERT_NO_FATAL_FAILURE(StartFleet());
  worker_->Signal(SIGSTOP);
  ConcurrentStreams streams(1, [this](int i, const auto& on_delta) {
    return Generate(Request(Prompt(i + 1), kLongAnswer), std::nullopt, on_delta);
  });
  ExpectMetricBecomes("lockstep_router_running_requests{model=\"tiny-llama\"}", 1);
  router_->Signal(SIGTERM);
  // Equal signals merge until the first one is taken: it was once readiness is gone.
  while (HttpGet(router_->admin_address(), "/healthz").ok()) {
  }
  router_->Signal(SIGTERM);
  EXPECT_EQ(router_->Wait(absl::Seconds(10)), 0);
  EXPECT_EQ(streams.Join()[0].status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Of a program whose log nobody reads any more when it starts.
absl::StatusOr<ChildProcess> StartWithDeafLog(std::vector<std::string> program) {
  std::vector<std::string> arguments = {
      "/bin/bash", "-c", "exec 3> >(exit); wait $!; exec 2>&3 3>&-; exec \"$@\"", "bash"};
  arguments.insert(arguments.end(), program.begin(), program.end());
  return ChildProcess::Start(arguments);
}

TEST_F(ProcessTest, WhoReadsTheLogMayGo) {
  // Programs inherit it, and whoever started this one may have set it.
  signal(SIGPIPE, SIG_DFL);
  auto worker = StartWithDeafLog({LOCKSTEP_BIN_DIR "/lockstep-worker", "--listen=127.0.0.1:0",
                                  std::string("--model=") + kModel, "--admin_listen=127.0.0.1:0",
                                  "--threads=1"});
  ASSERT_TRUE(worker.ok()) << worker.status();
  worker_.emplace(*std::move(worker));
  auto router =
      StartWithDeafLog({LOCKSTEP_BIN_DIR "/lockstep-router", std::string("--model=") + kModel,
                        "--worker=" + worker_->grpc_address(), "--listen=127.0.0.1:0",
                        "--admin_listen=127.0.0.1:0"});
  ASSERT_TRUE(router.ok()) << router.status();
  router_.emplace(*std::move(router));
  ExpectWorkerStateBecomes("ready");
  router_->Signal(SIGTERM);
  EXPECT_EQ(router_->Wait(absl::Seconds(60)), 0);
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->Wait(absl::Seconds(60)), 0);
}

}  // namespace
}  // namespace lockstep::testing
