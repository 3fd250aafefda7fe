#include "router/engine/replica_config.h"

#include "common/violations.h"

namespace lockstep::router {

absl::Status ReplicaConfig::Validate() const {
  Violations violations;
  violations.Merge(scheduler.Validate());
  violations.Require(step_timeout > absl::ZeroDuration(), "step_timeout: must be positive");
  violations.Require(failover_wait >= absl::ZeroDuration(), "failover_wait: must not be negative");
  violations.Require(no_worker_grace >= absl::ZeroDuration(),
                     "no_worker_grace: must not be negative");
  return violations.ToStatus();
}

}  // namespace lockstep::router
