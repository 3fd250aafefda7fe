#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <grpcpp/grpcpp.h>

namespace lockstep::router {

// How a call ends. When it ended for load or for want of a worker, the trailing metadata
// "retry-after-ms" and a google.rpc.RetryInfo in the details say when to come back, as the status
// hints or else as `retry_after` has it; so call this before the call is finished, and once.
grpc::Status FinalStatus(const absl::Status& status, absl::Duration retry_after,
                         grpc::ServerContext& context);

// The codes are the same numbers.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace lockstep::router
