#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string_view>

// Statuses as gRPC's trailers have them (PROTOCOL-HTTP2.md of gRPC).
namespace lockstep {

// Of the fields grpc-status (empty: absent), grpc-message and :status, and of the code with which
// the other side reset the stream (0: it did not).
absl::Status RpcStatusOf(std::string_view code, std::string_view message,
                         std::string_view http_status, uint32_t reset_code);

}  // namespace lockstep
