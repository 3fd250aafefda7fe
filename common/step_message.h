#pragma once

namespace lockstep {

// No step that a router sends to a worker is larger, in MiB: 32 for the ids that a step may start
// (SchedulerConfig::max_started_ids_per_step, of which a biased one takes 8 bytes), and the last
// sequence that it starts. So no worker may be told to take less.
inline constexpr int kMaxStepMessageMib = 40;

}  // namespace lockstep
