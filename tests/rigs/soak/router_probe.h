#pragma once

#include <absl/status/statusor.h>

#include "tests/rigs/child_process.h"

namespace lockstep::bench {

// As of --model-id: every router of a soak serves its model by this name.
inline constexpr char kModelId[] = "soak";

// What a router's /metrics says that it holds, and what became of requests whose worker was lost.
struct RouterGauges {
  double used_blocks = 0;    // of sequences that run
  double fenced_blocks = 0;  // of sequences that ended with steps in flight
  double running_requests = 0;
  double queue_requests = 0;
  double queue_tokens = 0;
  double resumed = 0;
  double failed = 0;
  double attached_workers = 0;  // ready or draining

  double held() const {
    return used_blocks + fenced_blocks + running_requests + queue_requests + queue_tokens;
  }
  bool holds_nothing() const { return held() == 0; }
};

absl::StatusOr<RouterGauges> ReadGauges(const testing::ChildProcess& router);

// How many connections to its public API are open.
absl::StatusOr<double> CountConnections(const testing::ChildProcess& router);

// With no client left: waits until everything that they had is given back, and says how many
// blocks, requests and tokens are not.
absl::StatusOr<double> CountLeaks(const testing::ChildProcess& router);

}  // namespace lockstep::bench
