#pragma once

#include <absl/status/statusor.h>

#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// Streams through one router of three workers, of which one at a time is killed and restarted,
// stopped and resumed, or cut off half open.
absl::StatusOr<SoakReport> RunWorkerFaults(const SoakOptions& options);

// Streams through a router that is stopped, or killed, while another one takes its workers over;
// one that was stopped is resumed then.
absl::StatusOr<SoakReport> RunTakeovers(const SoakOptions& options);

}  // namespace lockstep::bench
