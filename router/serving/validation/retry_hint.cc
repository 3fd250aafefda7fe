#include "router/serving/validation/retry_hint.h"

#include <absl/strings/cord.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <string>

namespace lockstep::router {
namespace {

constexpr char kPayload[] = "lockstep/retry-after-ns";

}  // namespace

absl::Status WithRetryAfter(absl::Status status, absl::Duration wait) {
  if (wait > absl::ZeroDuration()) {
    status.SetPayload(kPayload, absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(wait))));
  }
  return status;
}

absl::Duration RetryAfterOf(const absl::Status& status, absl::Duration by_default) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  int64_t nanoseconds = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &nanoseconds)) {
    return by_default;
  }
  return absl::Nanoseconds(nanoseconds);
}

}  // namespace lockstep::router
