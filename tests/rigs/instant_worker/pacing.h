#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <chrono>
#include <functional>
#include <string>

namespace lockstep::bench {

using Clock = std::chrono::steady_clock;

// Of schedules: a load's arrivals and faults come at fixed times, not in answer to events.
void PaceUntil(Clock::time_point moment);
inline void PaceFor(Clock::duration duration) { PaceUntil(Clock::now() + duration); }
inline void PaceFor(absl::Duration duration) { PaceFor(absl::ToChronoNanoseconds(duration)); }

inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline Clock::duration SecondsToDuration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Polls until `holds`; DEADLINE_EXCEEDED naming `what` when it never does.
absl::Status WaitUntil(const std::string& what, absl::Duration timeout,
                       const std::function<bool()>& holds);

}  // namespace lockstep::bench
