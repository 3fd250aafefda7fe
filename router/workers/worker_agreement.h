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
  std::optional<uint64_t> weights_fingerprint = {};  // of every worker, whatever else is allowed
  bool allow_mixed = false;                          // workers may differ in weights and numerics
};

// Holds the workers of a model to the same weights and numerics. The reference is what the first
// ready worker has; it is kept until no worker is ready. Weights that the configuration names come
// before it. Knows no worker: who is ready holds a Membership. Safe to use from any thread.
class WorkerAgreement {
 public:
  struct Leaver {
    void operator()(WorkerAgreement* agreement) const { agreement->Leave(); }
  };
  using Membership = std::unique_ptr<WorkerAgreement, Leaver>;

  explicit WorkerAgreement(const AgreementConfig& config) : config_(config) {}

  // Whether a worker of these bits may become ready now. FAILED_PRECONDITION naming the fields that
  // differ from the reference, and whose reference it is.
  absl::Status Check(const WorkerBits& bits) const;
  // Likewise; and it is ready until the membership ends, which must be before the agreement does.
  absl::StatusOr<Membership> Join(const WorkerBits& bits);

 private:
  absl::Status CheckLocked(const WorkerBits& bits) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave();

  const AgreementConfig config_;
  mutable Mutex mutex_;
  uint32_t num_ready_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerBits reference_ ABSL_GUARDED_BY(mutex_);  // while somebody is ready
};

}  // namespace lockstep::router
