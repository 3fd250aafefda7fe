#pragma once

#include <absl/status/statusor.h>

#include "bench/router/soak/soak.h"

namespace lockstep::bench {

// Honest streams through one router of three workers: alone for a quarter of the duration, then
// beside all attackers at once.
absl::StatusOr<SoakReport> RunHostile(const SoakOptions& options);

}  // namespace lockstep::bench
