#pragma once

#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/v1/generation.grpc.pb.h"
#include "tests/rigs/child_process.h"

namespace lockstep::testing {

// What a client saw of one request.
struct Answer {
  grpc::Status status;
  std::vector<std::vector<uint32_t>> tokens;   // per index
  std::vector<lockstep::v1::Finish> finishes;  // in order of arrival
  uint32_t cached_tokens = 0;
};

// One router and one worker of tests/golden/tiny-llama, as processes on loopback, and clients of
// theirs.
class ProcessTest : public ::testing::Test {
 protected:
  static constexpr char kModel[] = "tests/golden/tiny-llama";

  // Both, on free ports, until the router has attached the worker. Fails fatally.
  void StartFleet(const std::vector<std::string>& router_flags = {});
  // One after the other, for tests in which they differ or do not get along.
  void StartWorker(const std::string& listen, const std::string& model = kModel);
  void StartRouter(const std::vector<std::string>& flags = {});
  // A router of other workers than worker_.
  void StartRouterOf(const std::string& workers, const std::vector<std::string>& flags = {});
  static absl::StatusOr<ChildProcess> LaunchWorker(const std::string& listen,
                                                   const std::string& model = kModel,
                                                   const std::vector<std::string>& flags = {});
  // At the address of the worker before it, so that the router finds it again.
  void RestartWorker();

  lockstep::v1::Generation::Stub& stub() { return *stub_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }

  // Greedy by token ids, ends only by length.
  static lockstep::v1::GenerateRequest Request(std::vector<uint32_t> prompt, uint32_t max_tokens);
  // `on_delta` is called after each delta with the number of tokens so far; it may cancel.
  Answer Generate(const lockstep::v1::GenerateRequest& request,
                  std::optional<absl::Duration> timeout = std::nullopt,
                  const std::function<void(grpc::ClientContext&, size_t)>& on_delta = nullptr);

  // Scrapes the router until `series` has `value`; fails the test after 30 s.
  void ExpectMetricBecomes(const std::string& name_and_labels, double value);
  void ExpectWorkerStateBecomes(const std::string& state);
  void ExpectStateBecomes(const ChildProcess& worker, const std::string& state);
  double Metric(const std::string& name_and_labels);
  // No block used or fenced, nothing running or waiting.
  void ExpectNothingHeld();

  std::optional<ChildProcess> worker_;
  std::optional<ChildProcess> router_;

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<lockstep::v1::Generation::Stub> stub_;
};

}  // namespace lockstep::testing
