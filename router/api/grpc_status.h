#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include "common/status.h"

namespace lockstep::router {

// The codes are the same numbers.
inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), Message(status));
}

}  // namespace lockstep::router
