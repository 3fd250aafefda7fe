#include "tests/integration/process_fixture.h"

#include <absl/time/clock.h>

#include <chrono>

namespace lockstep::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  return absl::ToChronoTime(absl::Now() + timeout);
}

}  // namespace

absl::StatusOr<ChildProcess> ProcessTest::LaunchWorker(const std::string& listen,
                                                       const std::string& model,
                                                       const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {
      LOCKSTEP_BIN_DIR "/lockstep-worker", "--model=" + model, "--listen=" + listen,
      "--admin_listen=127.0.0.1:0",        "--threads=1",      "--log_level=warn"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return ChildProcess::Start(arguments);
}

void ProcessTest::StartWorker(const std::string& listen, const std::string& model) {
  auto worker = LaunchWorker(listen, model);
  ASSERT_TRUE(worker.ok()) << worker.status();
  worker_.emplace(*std::move(worker));
}

void ProcessTest::RestartWorker() { StartWorker(worker_->grpc_address()); }

void ProcessTest::StartFleet(const std::vector<std::string>& router_flags) {
  ASSERT_NO_FATAL_FAILURE(StartWorker(OwnLoopback() + ":0"));
  ASSERT_NO_FATAL_FAILURE(StartRouter(router_flags));
  ExpectWorkerStateBecomes("ready");
}

void ProcessTest::StartRouter(const std::vector<std::string>& flags) {
  StartRouterOf(worker_->grpc_address(), flags);
}

void ProcessTest::StartRouterOf(const std::string& workers, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {LOCKSTEP_BIN_DIR "/lockstep-router",
                                        std::string("--model=") + kModel,
                                        "--worker=" + workers,
                                        "--listen=127.0.0.1:0",
                                        "--admin_listen=127.0.0.1:0",
                                        "--log_level=warn"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  auto router = ChildProcess::Start(arguments);
  ASSERT_TRUE(router.ok()) << router.status();
  router_.emplace(*std::move(router));
  channel_ = grpc::CreateChannel(router_->grpc_address(), grpc::InsecureChannelCredentials());
  stub_ = lockstep::v1::Generation::NewStub(channel_);
}

lockstep::v1::GenerateRequest ProcessTest::Request(std::vector<uint32_t> prompt,
                                                   uint32_t max_tokens) {
  lockstep::v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(max_tokens);
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

Answer ProcessTest::Generate(const lockstep::v1::GenerateRequest& request,
                             std::optional<absl::Duration> timeout,
                             const std::function<void(grpc::ClientContext&, size_t)>& on_delta) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout.value_or(kPatience)));
  auto reader = stub_->Generate(&context, request);
  Answer answer;
  size_t num_tokens = 0;
  lockstep::v1::GenerateResponse response;
  while (reader->Read(&response)) {
    if (response.has_prompt_info()) answer.cached_tokens = response.prompt_info().cached_tokens();
    if (response.has_finish()) answer.finishes.push_back(response.finish());
    if (!response.has_delta()) continue;
    const lockstep::v1::OutputDelta& delta = response.delta();
    if (answer.tokens.size() <= delta.index()) answer.tokens.resize(delta.index() + 1);
    std::vector<uint32_t>& tokens = answer.tokens[delta.index()];
    tokens.insert(tokens.end(), delta.token_ids().begin(), delta.token_ids().end());
    num_tokens += delta.token_ids_size();
    if (on_delta) on_delta(context, num_tokens);
  }
  answer.status = reader->Finish();
  return answer;
}

double ProcessTest::Metric(const std::string& name_and_labels) {
  const auto text = HttpGet(router_->admin_address(), "/metrics");
  if (!text.ok()) return -1;
  return MetricValue(*text, name_and_labels).value_or(-1);
}

void ProcessTest::ExpectMetricBecomes(const std::string& name_and_labels, double value) {
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  double seen = Metric(name_and_labels);
  while (seen != value && absl::Now() < give_up) seen = Metric(name_and_labels);
  EXPECT_EQ(seen, value) << name_and_labels;
}

void ProcessTest::ExpectWorkerStateBecomes(const std::string& state) {
  ExpectStateBecomes(*worker_, state);
}

void ProcessTest::ExpectStateBecomes(const ChildProcess& worker, const std::string& state) {
  ExpectMetricBecomes("lockstep_router_worker_state{model=\"tiny-llama\",state=\"" + state +
                          "\",worker=\"" + worker.grpc_address() + "\"}",
                      1);
}

void ProcessTest::ExpectNothingHeld() {
  for (const std::string state : {"used", "fenced"}) {
    ExpectMetricBecomes("lockstep_router_kv_blocks{model=\"tiny-llama\",state=\"" + state + "\"}",
                        0);
  }
  for (const std::string gauge : {"running_requests", "queue_requests", "queue_tokens"}) {
    ExpectMetricBecomes("lockstep_router_" + gauge + "{model=\"tiny-llama\"}", 0);
  }
}

}  // namespace lockstep::testing
