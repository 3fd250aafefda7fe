#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "kernels/rope/rope_table.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

// Runs a fixed prompt through the model and returns a hash of the logits after its last token.
// Overwrites the first KV blocks of all groups.
uint64_t ProbeHash(ForwardModel& model);

// Runs a prompt in one step, in two steps, and with its last tokens one by one. If `window_tokens`,
// the shortest window of a layer, is not 0, the prompt is longer than the window, as far as a step
// and the pools have room. INTERNAL if the logits after the last token do not have the same bits
// each time. INVALID_ARGUMENT if one of them is not finite, because such a model can answer
// nothing.
absl::Status CheckProbeSchedules(ForwardModel& model, int64_t window_tokens = 0);

// Hash of the whole tables. The probe is not enough here: it sees only the first positions, and the
// angles come from the system's math library.
uint64_t HashOf(std::span<const kernels::RopeTable> tables);

// Hash of everything that may change bits (docs/numerics.md). Replicas with equal ids are
// interchangeable. `info` has device and fingerprints; `kernel_constants` are the kernels' version,
// tiles and borders.
uint64_t NumericsId(const ForwardModelInfo& info, std::span<const uint64_t> kernel_constants,
                    uint64_t rope_hash, uint64_t probe_hash);

}  // namespace lockstep::worker
