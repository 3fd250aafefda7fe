#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/lease_epoch.h"
#include "common/runtime/mutex.h"
#include "common/step_message.h"
#include "lockstep/worker/v1/worker.grpc.pb.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

namespace wire = worker::v1;

inline constexpr uint64_t kIncarnation = 4711;
inline constexpr std::chrono::seconds kPatience(30);

// What becomes of a claim.
enum class Fate {
  kAnswered,     // granted, or refused
  kLost,         // never reaches the worker
  kAnswerLost,   // is dealt with, but the router never learns how
  kForestalled,  // another router's claim of the same epoch comes first
};

// A worker as the step protocol has it, over a network that loses what the test says, and that
// never tells it of a stream's end: a lease lives until it is taken over.
class FakeWorker final : public wire::Worker::Service {
 public:
  explicit FakeWorker(std::deque<Fate> fates) : fates_(std::move(fates)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeWorker() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

  // A lease of somebody else.
  void GrantToAnother(uint64_t epoch) {
    MutexLock lock(mutex_);
    live_epoch_ = epoch;
  }

  // The lease of somebody else ends, and the worker knows.
  void EndLease() {
    MutexLock lock(mutex_);
    ended_epoch_ = std::exchange(live_epoch_, 0);
  }

  uint32_t num_looks() const {
    MutexLock lock(mutex_);
    return num_looks_;
  }
  std::vector<bool> stand_ins() const {
    MutexLock lock(mutex_);
    return stand_ins_;
  }

  void SetWeights(uint64_t fingerprint) {
    MutexLock lock(mutex_);
    weights_fingerprint_ = fingerprint;
  }

  std::vector<bool> takeovers() const {
    MutexLock lock(mutex_);
    return takeovers_;
  }

 private:
  grpc::Status Describe(grpc::ServerContext*, const wire::DescribeRequest*,
                        wire::DescribeResponse* response) override {
    MutexLock lock(mutex_);
    response->set_protocol_version(kStepProtocolVersion);
    response->set_incarnation(kIncarnation);
    response->set_weights_fingerprint(weights_fingerprint_);
    response->set_last_epoch(std::max(live_epoch_, ended_epoch_));
    response->set_live_epoch(live_epoch_);
    ++num_looks_;
    wire::KvGroup* const group = response->add_kv_groups();
    group->set_block_size_tokens(16);
    group->set_num_blocks(8);
    response->set_max_slots(1);
    response->set_max_step_tokens(1);
    response->set_max_context_tokens(1);
    response->set_max_steps_in_flight(1);
    return grpc::Status::OK;
  }

  grpc::Status Execute(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<wire::StepResult, wire::StepRequest>* stream) override {
    const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "the network failed");
    wire::StepRequest claim;
    if (!stream->Read(&claim)) return lost;
    const Fate fate = NextFate(claim);
    if (fate == Fate::kLost) return lost;
    if (fate == Fate::kForestalled) GrantToAnother(claim.epoch());
    const grpc::Status verdict = Grant(claim);
    if (fate == Fate::kAnswerLost) return lost;
    if (!verdict.ok()) return verdict;
    wire::StepResult answer;
    answer.set_epoch(claim.epoch());
    answer.set_incarnation(kIncarnation);
    stream->Write(answer);
    wire::StepRequest step;
    while (stream->Read(&step)) {
    }
    return grpc::Status::OK;
  }

  Fate NextFate(const wire::StepRequest& claim) {
    MutexLock lock(mutex_);
    takeovers_.push_back(claim.claim().takeover());
    stand_ins_.push_back(claim.claim().stand_in());
    if (fates_.empty()) return Fate::kAnswered;
    const Fate fate = fates_.front();
    fates_.pop_front();
    return fate;
  }

  grpc::Status Grant(const wire::StepRequest& claim) {
    MutexLock lock(mutex_);
    if (claim.epoch() <= live_epoch_ || claim.epoch() > HighestClaimableEpoch(live_epoch_) ||
        (live_epoch_ != 0 && !claim.claim().takeover())) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "another router holds the lease"};
    }
    live_epoch_ = claim.epoch();
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable Mutex mutex_;
  std::deque<Fate> fates_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> takeovers_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> stand_ins_ ABSL_GUARDED_BY(mutex_);
  uint64_t live_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t ended_epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t num_looks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t weights_fingerprint_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::router
