#pragma once

#include <absl/status/statusor.h>

#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// What connections and streams hold that nobody uses: opens many of one kind, waits until the
// router has all of them, and compares its resident memory with that before. One router for each
// kind; the worker computes nothing. No TLS.
absl::StatusOr<SoakReport> RunIdle(const SoakOptions& options);

}  // namespace lockstep::bench
