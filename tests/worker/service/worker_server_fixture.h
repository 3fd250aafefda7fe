#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "tests/support/fake_forward_model.h"
#include "tests/worker/service/step_client.h"
#include "tests/worker/steps/step_messages.h"
#include "worker/cpu/step_runner.h"
#include "worker/service/worker_server.h"

namespace lockstep::testing {

inline constexpr uint64_t kServerIncarnation = 4711;
inline constexpr char kServiceName[] = "lockstep.worker.v1.Worker";

// Stops the model until it is opened, and tells when the model has come to it.
class ModelGate {
 public:
  explicit ModelGate(FakeForwardModel& model) {
    model.set_after_forward([this](const worker::ForwardBatch&, std::span<float>) {
      MutexLock lock(mutex_);
      arrived_ = true;
      changed_.NotifyAll();
      while (!open_) changed_.Wait(mutex_);
    });
  }
  void AwaitArrival() {
    MutexLock lock(mutex_);
    while (!arrived_) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool arrived_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// A worker on a fake model, on loopback.
class WorkerServerTest : public ::testing::Test {
 protected:
  void SetUp() override { StartServer({}); }

  void StartServer(const worker::WorkerServerOptions& options) {
    server_.reset();
    auto server = worker::WorkerServer::Start(
        std::make_unique<worker::CpuStepRunner>(
            model_, worker::ExecutorLimits{.max_slots = 8, .max_logprobs = 4}, kServerIncarnation),
        model_.info(), kServerIncarnation, metrics_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ =
        grpc::CreateChannel(FormatAddress(server_->address()), grpc::InsecureChannelCredentials());
  }
  // Claims until the worker has noticed that the lease before has ended.
  void ClaimWithoutTakeover(uint64_t first_epoch, std::optional<StepClient>& client) {
    for (uint64_t epoch = first_epoch; epoch < first_epoch + 10'000; ++epoch) {
      client.emplace(channel_);
      if (client->Claim(epoch)) return;
    }
    FAIL() << "the former lease never ended";
  }
  static worker::v1::StepRequest StartStep(StepSequence& steps, uint32_t max_total_tokens = 20) {
    worker::v1::StepRequest step = steps.Next();
    *step.add_started() = MakeStarted(0, MakeTokens(5, 64, 1), {0, 1, 2, 3, 4}, max_total_tokens);
    AddRow(step, 0, 5);
    return step;
  }
  static worker::v1::StepRequest DecodeStep(StepSequence& steps) {
    worker::v1::StepRequest step = steps.Next();
    step.add_run_slots(0);
    return step;
  }
  std::vector<TokenId> ExpectedTokens(size_t count) const {
    std::vector<TokenId> tokens = MakeTokens(5, 64, 1);
    for (size_t i = 0; i < count; ++i) {
      const std::vector<float> logits = model_.ExpectedLogits(tokens);
      tokens.push_back(
          static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return {tokens.begin() + 5, tokens.end()};
  }
  std::string Metrics() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

  prometheus::Registry registry_;
  FakeForwardModel model_;
  worker::WorkerMetrics metrics_{registry_, model_.info()};
  std::unique_ptr<worker::WorkerServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace lockstep::testing
