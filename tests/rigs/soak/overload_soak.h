#pragma once

#include <absl/status/statusor.h>

#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// A half, once, twice and ten times the load that a scripted worker can bear, one after the other;
// the last one for the whole duration, the others for a sixth of it each.
absl::StatusOr<SoakReport> RunOverload(const SoakOptions& options);

}  // namespace lockstep::bench
