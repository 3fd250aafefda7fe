#pragma once

#include <absl/time/clock.h>
#include <absl/time/time.h>

#include <chrono>

#include "common/instant.h"
#include "common/runtime/mutex.h"

namespace lockstep {

// Now, for code that is not given a Clock.
inline Instant MonotonicNow() {
  return Instant::After(absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

// The source of time. Pure code takes `now` as an argument instead; loops own a Clock.
class Clock {
 public:
  virtual ~Clock() = default;
  // For all decisions and measurements.
  virtual Instant Now() const = 0;
  // For people: in answers and logs. May jump in either direction.
  virtual absl::Time TimeOfDay() const = 0;
};

class RealClock final : public Clock {
 public:
  Instant Now() const override { return MonotonicNow(); }
  absl::Time TimeOfDay() const override { return absl::Now(); }
};

// Stands still until told otherwise. Safe to use from any thread.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(Instant start = Instant()) : now_(start) {}
  Instant Now() const override {
    MutexLock lock(mutex_);
    return now_;
  }
  absl::Time TimeOfDay() const override {
    MutexLock lock(mutex_);
    return time_of_day_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(mutex_);
    now_ += by;
    time_of_day_ += by;
  }
  // Simulates a change of the machine's clock.
  void SetTimeOfDay(absl::Time time) {
    MutexLock lock(mutex_);
    time_of_day_ = time;
  }

 private:
  mutable Mutex mutex_;
  Instant now_ ABSL_GUARDED_BY(mutex_);
  absl::Time time_of_day_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
};

}  // namespace lockstep
