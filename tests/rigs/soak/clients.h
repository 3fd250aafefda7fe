#pragma once

#include <absl/status/status.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"
#include "lockstep/v1/generation.grpc.pb.h"
#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// Clients that stream without pause, each on a thread of its own, and compare what comes with what
// came undisturbed. Requests, with greedy and seeded sampling, follow from the seed.
class SoakClients {
 public:
  // `address` is the router's; `key` is shown to it, if there is one.
  SoakClients(uint32_t num_streams, uint64_t seed, const std::string& address,
              std::string key = "");
  ~SoakClients();  // Stop() has been called, if Start() was

  // Asks every request once. An error unless all finish.
  absl::Status LearnExpected();
  void Start();
  // New requests go to this router.
  void Retarget(const std::string& address);
  // Of the requests that have finished since the last call.
  std::vector<ClientLatency> TakeLatencies();
  ClientTally tally();  // so far
  // Once the requests under way have ended.
  ClientTally Stop();

 private:
  using Stub = lockstep::v1::Generation::Stub;

  // A request and its tokens, by index of the output.
  struct Question {
    lockstep::v1::GenerateRequest request;
    std::vector<std::vector<uint32_t>> expected;
  };
  struct Reply {
    grpc::Status status;
    bool accepted = false;  // something of the answer came
    bool hinted = false;    // when to come back
    std::vector<std::vector<uint32_t>> tokens;
    std::vector<lockstep::v1::Finish> finishes;
    ClientLatency latency;
  };

  std::shared_ptr<Stub> stub();
  Reply Ask(const lockstep::v1::GenerateRequest& request);
  void Stream(uint32_t stream);
  void Count(const Question& question, const Reply& reply);

  const std::string key_;
  std::vector<std::vector<Question>> questions_;  // by stream
  std::atomic<bool> done_ = false;
  std::vector<NamedThread> threads_;
  Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
  ClientTally tally_ ABSL_GUARDED_BY(mutex_);
  std::vector<ClientLatency> latencies_ ABSL_GUARDED_BY(mutex_);
};

// A connection of its own to a router.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

// "UNAVAILABLE", "INTERNAL", ...
std::string StatusName(const grpc::Status& status);

}  // namespace lockstep::bench
