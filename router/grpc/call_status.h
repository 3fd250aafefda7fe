#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>

#include "router/serving/validation/client_message.h"

namespace lockstep::router {

// How a gRPC call ends, as its trailers say it. The codes are absl's, which are the same numbers.
struct GrpcStatus {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message = {};
  std::string details = {};                        // a serialized google.rpc.Status; empty: none
  std::optional<std::string> retry_after_ms = {};  // the trailer "retry-after-ms"
  bool accepts_identity_only = false;              // says that nothing compressed is read

  static GrpcStatus Of(const absl::Status& status) {
    return {.code = status.code(), .message = ClientMessage(status)};
  }
};

}  // namespace lockstep::router
