#pragma once

#include <absl/time/time.h>

#include <cstdint>

#include "common/instant.h"

namespace lockstep::cli {

struct RestartLimits {
  absl::Duration first_wait = absl::Seconds(1);
  absl::Duration max_wait = absl::Seconds(30);
  absl::Duration steady = absl::Minutes(1);  // after a run this long, the waits start over
  uint32_t max_failed_starts = 5;
};

// Decides when a program that ended starts again. Each wait is twice the wait before it, up to
// max_wait. A program that was never ready is given up after max_failed_starts, or at once if it
// refuses to start like this (kRefusedExitCode). Pure; one object for each program.
class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits)
      : limits_(limits), next_wait_(limits.first_wait) {}

  void OnStarted(Instant now) { started_at_ = now; }
  void OnReady() { was_ready_ = true; }

  struct Verdict {
    bool gives_up = false;
    absl::Duration wait = absl::ZeroDuration();  // until the next start
  };
  Verdict OnEnded(Instant now, bool refuses = false);

  bool was_ready() const { return was_ready_; }

 private:
  const RestartLimits limits_;
  absl::Duration next_wait_;
  Instant started_at_ = Instant::InfinitePast();
  bool was_ready_ = false;  // at least once
  uint32_t num_failed_starts_ = 0;
};

}  // namespace lockstep::cli
