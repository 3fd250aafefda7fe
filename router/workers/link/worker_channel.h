#pragma once

#include <absl/status/status.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string_view>

#include "router/workers/link/worker_client_config.h"

// The connection to a worker, and what the end of a call says.
namespace lockstep::router {

// A connection of its own, which no other channel shares. It connects when it is used.
std::shared_ptr<grpc::Channel> MakeWorkerChannel(const WorkerClientConfig& config);

// The replica has no worker, whatever status the call ended with. So the result is UNAVAILABLE,
// with the call's code and message.
absl::Status CallFailed(std::string_view call, const grpc::Status& status);

// A worker refuses a claim with a code that gRPC itself never produces. If the call ends otherwise
// before the grant, it is unknown whether the claim arrived.
bool IsRefusal(const grpc::Status& status);

}  // namespace lockstep::router
