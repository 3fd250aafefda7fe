#pragma once

#include <absl/time/time.h>

#include <chrono>

#include "common/mutex.h"

namespace lockstep::bench {

// A load is a matter of time: returns at that moment.
inline void PaceUntil(std::chrono::steady_clock::time_point moment) {
  Mutex mutex;
  CondVar nobody_tells;
  MutexLock lock(mutex);
  for (;;) {
    const auto left = moment - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return;
    nobody_tells.WaitFor(mutex, left);
  }
}

inline void PaceFor(absl::Duration duration) {
  PaceUntil(std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration));
}

}  // namespace lockstep::bench
