#pragma once

namespace lockstep {

// A router with default limits sends steps of at most this many MiB, so every worker must take
// them. The ids that a step starts (SchedulerConfig::max_started_ids_per_step) take up to 32 MiB,
// because a biased id takes 8 bytes. The last sequence that a step starts may go beyond this number
// of ids. The longest prompt (SchedulerConfig::max_waiting_tokens) takes 17 MiB.
inline constexpr int kMaxStepMessageMib = 56;

}  // namespace lockstep
