#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

// A hint when a refused client should come back. The status of the refusal carries it.
namespace lockstep::router {

// Returns `status` unchanged if `wait` is 0.
absl::Status WithRetryAfter(absl::Status status, absl::Duration wait);

// Returns `by_default` if the status has no hint.
absl::Duration RetryAfterOf(const absl::Status& status, absl::Duration by_default);

}  // namespace lockstep::router
