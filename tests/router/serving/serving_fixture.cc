#include "tests/router/serving/serving_fixture.h"

#include <absl/time/clock.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/grpc/credentials.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"
#include "tests/router/core/fcfs_policy.h"
#include "tests/router/serving/byte_tokenizer.h"
#include "worker/cpu/step_runner.h"

namespace lockstep::testing {

namespace v1 = lockstep::v1;

ServingTest::ServingTest()
    : model_(MakeByteModel(kChatMlTemplate, kContextTokens)), metrics_(registry_, "bytes") {
  model_options_ = {.vocab_size = ByteTokenizer::kVocabSize,
                    .max_context_tokens = kContextTokens,
                    .max_step_tokens = 256,
                    .max_logits_rows = 64,
                    .block_size_tokens = 16,
                    .num_blocks = 2048};
  expected_fingerprint_ = FakeForwardModel(model_options_).info().model_fingerprint;
  router_config_.front.listeners = {"127.0.0.1:0"};
}

ServingTest::~ServingTest() {
  ReleaseForwards();
  router_.reset();
  worker_.reset();
}

void ServingTest::StartWorker() {
  forward_model_ = std::make_unique<FakeForwardModel>(model_options_);
  forward_model_->set_after_forward(
      [this](const worker::ForwardBatch& batch, std::span<float> logits) {
        AfterForward(batch, logits);
      });
  worker_registry_ = std::make_unique<prometheus::Registry>();
  worker_metrics_ =
      std::make_unique<worker::WorkerMetrics>(*worker_registry_, forward_model_->info());
  worker::WorkerServerOptions options;
  options.listen = fmt::format("127.0.0.1:{}", worker_port_);
  options.tls = worker_tls_;
  ++incarnation_;
  auto runner = std::make_unique<worker::CpuStepRunner>(
      *forward_model_, worker::ExecutorLimits{.max_slots = 64}, incarnation_);
  auto started = worker::WorkerServer::Start(std::move(runner), forward_model_->info(),
                                             incarnation_, *worker_metrics_, options);
  LOCKSTEP_CHECK(started.ok(), "{}", Message(started.status()));
  worker_ = *std::move(started);
  worker_port_ = worker_->address().port;
}

void ServingTest::StopWorker() {
  // A held forward pass holds up the end of the executor's thread, but not the end of the
  // connections.
  std::thread stopper([this] { worker_.reset(); });
  // Not ready is not enough: a worker that drains still answers.
  Eventually("the router has lost the worker", [this] {
    if (router_ == nullptr) return true;
    const router::WorkerState state = router_->engine().replica_status().worker_state;
    return state != router::WorkerState::kReady && state != router::WorkerState::kDraining;
  });
  ReleaseForwards();
  stopper.join();
}

std::string ServingTest::worker_address() const {
  return fmt::format("127.0.0.1:{}", worker_port_);
}

void ServingTest::StartRouter() {
  router::WorkerClientConfig link;
  link.address = worker_address();
  link.tls = link_tls_;
  // The fake model announces a tokenizer of its own.
  link.expected = {
      .model_fingerprint = expected_fingerprint_,
      .tokenizer_fingerprint = FakeForwardModel(model_options_).info().tokenizer_fingerprint,
      .vocab_size = model_.config.vocab_size};
  link.min_backoff = absl::Milliseconds(5);
  link.max_backoff = absl::Milliseconds(20);
  const auto loops = std::make_shared<router::GrpcLoops>(router_config_.num_grpc_threads);
  std::vector<router::ReplicaParts> replicas;
  replicas.push_back({.worker = link.address,
                      .link = std::make_unique<router::GrpcStepLink>(link, loops->Of(0)),
                      .policy = router::testing::MakeFcfsPolicy(),
                      .runner = loops->Of(0)});
  auto started = router::RouterServer::Start(
      router_config_,
      {.serving = {.model = model_, .metrics = metrics_, .clock = clock_, .tracer = tracer_},
       .replicas = std::move(replicas),
       .loops = loops,
       .registry = registry_});
  LOCKSTEP_CHECK(started.ok(), "{}", Message(started.status()));
  router_ = *std::move(started);
  channel_ = OpenChannel(client_tls_);
  stub_ = v1::Generation::NewStub(channel_);
}

std::shared_ptr<grpc::Channel> ServingTest::OpenChannel(const TlsClientFiles& tls,
                                                        grpc::ChannelArguments arguments) const {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto credentials = MakeChannelCredentials(tls, arguments);
  return grpc::CreateCustomChannel(FormatAddress(router_->address()), credentials, arguments);
}

void ServingTest::StartBoth() {
  StartWorker();
  StartRouter();
  WaitForReadiness(true);
}

void ServingTest::WaitForReadiness(bool ready) {
  Eventually(ready ? "the router is ready" : "the router is not ready",
             [&] { return router_->engine().ready() == ready; });
}

void ServingTest::HoldForwards() {
  MutexLock lock(mutex_);
  holding_ = true;
  num_allowed_ = 0;
}

void ServingTest::AllowForwards(uint64_t count) {
  {
    MutexLock lock(mutex_);
    num_allowed_ += count;
  }
  forwards_allowed_.NotifyAll();
}

void ServingTest::ReleaseForwards() {
  {
    MutexLock lock(mutex_);
    holding_ = false;
  }
  forwards_allowed_.NotifyAll();
}

void ServingTest::SetScript(std::function<TokenId(uint32_t position)> script) {
  MutexLock lock(mutex_);
  script_ = std::move(script);
}

void ServingTest::AfterForward(const worker::ForwardBatch& batch, std::span<float> logits) {
  std::function<TokenId(uint32_t)> script;
  {
    MutexLock lock(mutex_);
    while (holding_ && num_allowed_ == 0) forwards_allowed_.Wait(mutex_);
    if (num_allowed_ > 0) --num_allowed_;
    script = script_;
  }
  const size_t vocab_size = logits.size() / std::max<size_t>(1, batch.logits_tokens.size());
  for (size_t i = 0; i < batch.logits_tokens.size(); ++i) {
    const uint32_t token = batch.logits_tokens[i];
    const auto row =
        std::find_if(batch.rows.begin(), batch.rows.end(), [token](const auto& candidate) {
          return token < candidate.first_token + candidate.num_tokens;
        });
    const uint32_t next_position = row->first_position + (token - row->first_token) + 1;
    const TokenId next =
        script ? script(next_position) : static_cast<unsigned char>(Letter(next_position));
    logits[i * vocab_size + next] = 20;
  }
}

std::string ServingTest::Continuation(uint32_t num_prompt_tokens, uint32_t num_tokens) {
  std::string text;
  for (uint32_t i = 0; i < num_tokens; ++i) text += Letter(num_prompt_tokens + i);
  return text;
}

v1::GenerateRequest ServingTest::TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(max_tokens);
  return request;
}

std::string ServingTest::Reply::Text(uint32_t index) const {
  std::string text;
  for (const v1::GenerateResponse& message : messages) {
    if (message.has_delta() && message.delta().index() == index) text += message.delta().text();
  }
  return text;
}

std::vector<uint32_t> ServingTest::Reply::Tokens(uint32_t index) const {
  std::vector<uint32_t> ids;
  for (const v1::GenerateResponse& message : messages) {
    if (!message.has_delta() || message.delta().index() != index) continue;
    ids.insert(ids.end(), message.delta().token_ids().begin(), message.delta().token_ids().end());
  }
  return ids;
}

const v1::Finish* ServingTest::Reply::Finish(uint32_t index) const {
  for (const v1::GenerateResponse& message : messages) {
    if (message.has_finish() && message.finish().index() == index) return &message.finish();
  }
  return nullptr;
}

ServingTest::Reply ServingTest::ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader) {
  Reply reply;
  v1::GenerateResponse message;
  while (reader.Read(&message)) reply.messages.push_back(message);
  reply.status = reader.Finish();
  return reply;
}

ServingTest::Reply ServingTest::Generate(grpc::ClientContext& context,
                                         const v1::GenerateRequest& request) {
  return ReadAll(*stub_->Generate(&context, request));
}

ServingTest::Reply ServingTest::Generate(const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  return Generate(context, request);
}

void ServingTest::Eventually(const std::string& what, const std::function<bool()>& holds) {
  const Instant deadline = MonotonicNow() + absl::Seconds(60);
  while (!holds()) {
    ASSERT_LT(MonotonicNow(), deadline) << "in vain: " << what;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

void ServingTest::ExpectEverythingBack() {
  router::Engine& engine = router_->engine();
  ASSERT_TRUE(engine.admission().WaitUntilNoneOpen(absl::Seconds(60)));
  Eventually("every block is back", [&] {
    return std::ranges::all_of(engine.replica_statuses(), [](const router::ReplicaStatus& replica) {
      return replica.scheduler.used_blocks + replica.scheduler.fenced_blocks == 0;
    });
  });
  EXPECT_EQ(engine.replica_status().live_requests, 0u);
  EXPECT_EQ(engine.admission().counts().waiting_requests, 0u);
  EXPECT_EQ(engine.admission().counts().waiting_tokens, 0u);
}

void ExpectStatus(const grpc::Status& status, grpc::StatusCode code, const std::string& message) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr(message));
}

}  // namespace lockstep::testing
