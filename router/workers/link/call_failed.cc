#include "router/workers/link/call_failed.h"

#include <string>

#include "common/status.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {

absl::Status CallFailed(std::string_view call, const absl::Status& status) {
  if (status.ok()) return Unavailable("{} ended", call);
  return Unavailable("{} failed: {}: {}", call, absl::StatusCodeToString(status.code()),
                     QuoteWorker(Message(status)));
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
}

}  // namespace lockstep::router
