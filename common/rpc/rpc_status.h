#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

// Statuses of gRPC's trailers (PROTOCOL-HTTP2.md of gRPC).
namespace lockstep {

// Makes a status of the fields grpc-status (empty: absent), grpc-message and :status, and of the
// code of the peer's stream reset (0: none).
absl::Status RpcStatusOf(std::string_view code, std::string_view message,
                         std::string_view http_status, uint32_t reset_code);

}  // namespace lockstep
