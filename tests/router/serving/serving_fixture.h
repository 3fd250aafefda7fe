#pragma once

#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/clock.h"
#include "common/runtime/mutex.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "router/engine/router_metrics.h"
#include "router/router_server.h"
#include "router/workers/link/grpc_step_link.h"
#include "tests/router/tracing/span_recorder.h"
#include "tests/support/fake_forward_model.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_server.h"

namespace lockstep::testing {

// A whole router and a whole worker in this process, over loopback gRPC: real scheduler, step
// stream, executor and text, and a model whose next token depends on the position only. After a
// prompt of p tokens it says the letters of the alphabet from Letter(p) on, again and again.
class ServingTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kContextTokens = 4096;

  ServingTest();
  ~ServingTest() override;

  // Starts the worker on a free port, or on the port that it had before.
  void StartWorker();
  // As a crash looks to the router: every connection is cut.
  void StopWorker();
  void StartRouter();
  // A connection of its own to the router.
  std::shared_ptr<grpc::Channel> OpenChannel(const TlsClientFiles& tls,
                                             grpc::ChannelArguments arguments = {}) const;
  // Returns once the router is ready.
  void StartBoth();
  void WaitForReadiness(bool ready);

  // The forward passes of the worker wait until they are allowed.
  void HoldForwards();
  void AllowForwards(uint64_t count);
  void ReleaseForwards();

  // What the model says at each position, instead of letters. Call while nothing runs.
  void SetScript(std::function<TokenId(uint32_t position)> script);
  static char Letter(uint32_t position) { return static_cast<char>('a' + position % 26); }
  // What the model says after a prompt of this length (the start token counts).
  static std::string Continuation(uint32_t num_prompt_tokens, uint32_t num_tokens);

  static lockstep::v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);

  struct Reply {
    std::vector<lockstep::v1::GenerateResponse> messages;
    grpc::Status status;

    std::string Text(uint32_t index = 0) const;
    std::vector<uint32_t> Tokens(uint32_t index = 0) const;
    const lockstep::v1::Finish* Finish(uint32_t index = 0) const;  // null when there is none
    const lockstep::v1::PromptInfo& prompt_info() const { return messages.at(0).prompt_info(); }
  };
  Reply Generate(const lockstep::v1::GenerateRequest& request);
  Reply Generate(grpc::ClientContext& context, const lockstep::v1::GenerateRequest& request);
  // With a tenant's key.
  static void ShowKey(grpc::ClientContext& context, const std::string& key) {
    context.AddMetadata("authorization", "Bearer " + key);
  }
  Reply GenerateAs(const std::string& key, const lockstep::v1::GenerateRequest& request) {
    grpc::ClientContext context;
    ShowKey(context, key);
    return Generate(context, request);
  }
  static Reply ReadAll(grpc::ClientReader<lockstep::v1::GenerateResponse>& reader);

  // Waits until no request is left and every block is back; fails the test if that never comes.
  void ExpectEverythingBack();
  static void Eventually(const std::string& what, const std::function<bool()>& holds);
  std::string worker_address() const;
  double Rejected(router::Rejection reason) {
    return router::RouterMetrics::At(metrics_.requests_rejected_total, reason).Value();
  }

  // Set before the starts.
  router::RouterServerConfig router_config_;
  FakeModelOptions model_options_;
  uint64_t expected_fingerprint_ = 0;  // of the model; set to the worker's
  TlsFiles worker_tls_;
  TlsClientFiles link_tls_;    // of the router to the worker
  TlsClientFiles client_tls_;  // of stub_

  router::ServedModel model_;
  RealClock clock_;
  prometheus::Registry registry_;
  router::RouterMetrics metrics_;
  std::unique_ptr<FakeForwardModel> forward_model_;
  std::unique_ptr<worker::WorkerMetrics> worker_metrics_;
  std::unique_ptr<prometheus::Registry> worker_registry_;
  std::unique_ptr<worker::WorkerServer> worker_;
  router::testing::SpanRecorder recorder_{clock_};
  router::Tracer* tracer_ = nullptr;  // that of recorder_, if a test says so before StartRouter
  std::unique_ptr<router::RouterServer> router_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<lockstep::v1::Generation::Stub> stub_;

 private:
  void AfterForward(const worker::ForwardBatch& batch, std::span<float> logits);

  uint16_t worker_port_ = 0;
  uint64_t incarnation_ = 0;
  Mutex mutex_;
  CondVar forwards_allowed_;
  std::function<TokenId(uint32_t position)> script_ ABSL_GUARDED_BY(mutex_);
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t num_allowed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The code, and words that the message has.
void ExpectStatus(const grpc::Status& status, grpc::StatusCode code, const std::string& message);

}  // namespace lockstep::testing
