#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

// When a refused client had better come back, carried by the status of the refusal.
namespace lockstep::router {

// `status` as it is when `wait` is 0.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);

// `by_default` when the status does not say.
absl::Duration RetryAfterOf(const absl::Status& status, absl::Duration by_default);

}  // namespace lockstep::router
