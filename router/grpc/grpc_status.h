#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include "router/grpc/call_status.h"

namespace lockstep::router {

// The end of a call. If it ended because of load or a missing worker, the trailer "retry-after-ms"
// and a google.rpc.RetryInfo in the details say when to come back. The time is the status's hint,
// or else `retry_after`.
GrpcStatus FinalStatus(const absl::Status& status, absl::Duration retry_after);

}  // namespace lockstep::router
