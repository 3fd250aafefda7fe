#include "tests/rigs/instant_worker/pacing.h"

#include "common/runtime/mutex.h"
#include "common/status.h"

namespace lockstep::bench {

void PaceUntil(Clock::time_point moment) {
  Mutex mutex;
  CondVar nobody_tells;
  MutexLock lock(mutex);
  for (;;) {
    const auto left = moment - Clock::now();
    if (left <= Clock::duration::zero()) return;
    nobody_tells.WaitFor(mutex, left);
  }
}

absl::Status WaitUntil(const std::string& what, absl::Duration timeout,
                       const std::function<bool()>& holds) {
  const Clock::time_point give_up = Clock::now() + absl::ToChronoNanoseconds(timeout);
  while (!holds()) {
    if (Clock::now() > give_up) {
      return MakeError(absl::StatusCode::kDeadlineExceeded, "not within {}: {}",
                       absl::FormatDuration(timeout), what);
    }
    PaceFor(std::chrono::milliseconds(10));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::bench
