#pragma once

#include <chrono>

namespace lockstep {

inline void PauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Polls done() until it is true, for a few tens of microseconds at most. Returns false if the time
// has passed. For waits that usually end sooner than a thread falls asleep and wakes.
template <typename Condition>
bool SpinBriefly(Condition done) {
  constexpr std::chrono::microseconds kTime{40};
  constexpr int kSpinsPerClockRead = 64;
  const auto deadline = std::chrono::steady_clock::now() + kTime;
  do {
    for (int i = 0; i < kSpinsPerClockRead; ++i) {
      if (done()) return true;
      PauseCore();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace lockstep
