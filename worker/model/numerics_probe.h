#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "kernels/rope/rope_table.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

// Runs a fixed prompt through the model and returns a hash of the logits after its last token.
// Overwrites the first KV blocks.
uint64_t ProbeHash(ForwardModel& model);

// The same prompt in one step, in two, and with its last tokens one by one must end in the same
// bits, else INTERNAL.
absl::Status CheckProbeSchedules(ForwardModel& model);

// The whole table: its angles come from the system's math library, and the probe sees only the
// first positions.
uint64_t HashOf(const kernels::RopeTable& table);

// What may change bits (docs/numerics.md): equal ids mean that replicas are interchangeable. `info`
// has device and fingerprints; `kernel_constants` are the kernels' version, tiles and borders.
uint64_t NumericsId(const ForwardModelInfo& info, std::span<const uint64_t> kernel_constants,
                    uint64_t rope_hash, uint64_t probe_hash);

}  // namespace lockstep::worker
