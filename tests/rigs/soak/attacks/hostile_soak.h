#pragma once

#include <absl/status/statusor.h>

#include "tests/rigs/soak/soak.h"

namespace lockstep::bench {

// Honest streams through one router of three workers: alone for a quarter of the duration, then
// beside the attackers, all at once.
absl::StatusOr<SoakReport> RunHostile(const SoakOptions& options);

// Likewise, but alone for the duration, then beside each attacker by itself for as long. Prints a
// line of a table for each of these phases as soon as it is over.
absl::StatusOr<SoakReport> RunEachAttack(const SoakOptions& options);

}  // namespace lockstep::bench
