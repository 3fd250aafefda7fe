#pragma once

namespace lockstep {

// A router sends steps of at most this many MiB, so every worker must take them. The ids that a
// step may start (SchedulerConfig::max_started_ids_per_step) take up to 32: a biased id takes 8
// bytes. The last sequence that a step starts comes on top. With as many tokens as prompts that
// wait may have together by default (SchedulerConfig::max_waiting_tokens) it takes 17.
inline constexpr int kMaxStepMessageMib = 56;

}  // namespace lockstep
