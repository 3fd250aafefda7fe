#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>

#include "router/serving/validation/client_message.h"

namespace lockstep::router {

// The end of a gRPC call, as its trailers show it. The codes of absl and gRPC are the same numbers.
struct GrpcStatus {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message = {};
  std::string details = {};                        // a serialized google.rpc.Status; empty: none
  std::optional<std::string> retry_after_ms = {};  // the trailer "retry-after-ms"
  bool accepts_identity_only = false;  // tells the client that compressed messages are not read

  static GrpcStatus Of(const absl::Status& status) {
    return {.code = status.code(), .message = ClientMessage(status)};
  }
};

}  // namespace lockstep::router
