#include "cli/serve/processes/restart_policy.h"

#include <algorithm>

#include "common/instant.h"

namespace lockstep::cli {

RestartPolicy::Verdict RestartPolicy::OnEnded(Instant now, bool refuses) {
  if (!was_ready_ && (refuses || ++num_failed_starts_ >= limits_.max_failed_starts)) {
    return {.gives_up = true};
  }
  if (now - started_at_ >= limits_.steady) next_wait_ = limits_.first_wait;
  const absl::Duration wait = next_wait_;
  next_wait_ = std::min(next_wait_ * 2, limits_.max_wait);
  return {.wait = wait};
}

}  // namespace lockstep::cli
