#pragma once

#include <absl/time/time.h>
#include <time.h>

namespace lockstep {

// What this process has computed so far, in all its threads. Bounds on the cost of a piece of work
// compare this: the time of the clock on the wall grows with whatever else the machine does.
inline absl::Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace lockstep
