#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include "router/core/messages/scheduler_config.h"
#include "router/core/policy/draft_record.h"

namespace lockstep::router {

struct ReplicaConfig {
  SchedulerConfig scheduler = {.target_step_time = kServingStepTime,
                               .max_draft_tokens = kMaxDrafts};
  // A worker hangs if a step has no result for so long. The same holds for a drained worker that
  // does not end its lease.
  absl::Duration step_timeout = absl::Seconds(60);
  // How long requests wait for another worker after theirs was lost or began to drain.
  absl::Duration failover_wait = absl::Seconds(30);
  // How long after the loss of the worker new requests are still accepted.
  absl::Duration no_worker_grace = absl::Seconds(2);

  absl::Status Validate() const;  // reports every violation
};

}  // namespace lockstep::router
