#pragma once

#include <chrono>

#include "common/runtime/mutex.h"

namespace lockstep {

// For a loop that waits for a condition: waits for the next notification of `changed`, at most
// until the deadline. False, without waiting, if the deadline has passed.
inline bool WaitUntil(Mutex& mutex, CondVar& changed,
                      std::chrono::steady_clock::time_point deadline)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  const auto left = deadline - std::chrono::steady_clock::now();
  if (left <= std::chrono::nanoseconds::zero()) return false;
  changed.WaitFor(mutex, left);
  return true;
}

}  // namespace lockstep
