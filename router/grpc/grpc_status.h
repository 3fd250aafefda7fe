#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include "router/grpc/call_status.h"

namespace lockstep::router {

// How a call ends. When it ended for load or for want of a worker, the trailing metadata
// "retry-after-ms" and a google.rpc.RetryInfo in the details say when to come back, as the status
// hints or else as `retry_after` has it.
GrpcStatus FinalStatus(const absl::Status& status, absl::Duration retry_after);

}  // namespace lockstep::router
