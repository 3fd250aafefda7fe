#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "common/runtime/mutex.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

struct AgreementConfig {
  std::optional<uint64_t> weights_fingerprint = {};  // every worker must have these, even if mixed
  bool allow_mixed = false;                          // workers may differ in weights and numerics
};

// Makes sure that the workers of a model have the same weights and numerics. The reference is what
// the first ready worker has. It is kept until no worker is ready. Weights named in the
// configuration take precedence over it. Knows no workers: each ready worker holds a Membership.
// Safe to use from any thread.
class WorkerAgreement {
 public:
  struct Leaver {
    void operator()(WorkerAgreement* agreement) const { agreement->Leave(); }
  };
  using Membership = std::unique_ptr<WorkerAgreement, Leaver>;

  explicit WorkerAgreement(const AgreementConfig& config) : config_(config) {}

  // Checks whether a worker with these bits may become ready now. FAILED_PRECONDITION names the
  // fields that differ from the reference, and where the reference comes from.
  absl::Status Check(const WorkerBits& bits) const;
  // Checks as above. Then the worker counts as ready until the membership ends. The agreement must
  // outlive the membership.
  absl::StatusOr<Membership> Join(const WorkerBits& bits);

 private:
  absl::Status CheckLocked(const WorkerBits& bits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave();

  const AgreementConfig config_;
  mutable Mutex mutex_;
  uint32_t num_ready_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerBits reference_ ABSL_GUARDED_BY(mutex_);  // valid while a worker is ready
};

}  // namespace lockstep::router
