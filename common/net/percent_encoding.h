#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Visible ASCII without '%' as it is, other bytes as %XX: what gRPC's grpc-message wants
// (PROTOCOL-HTTP2.md of gRPC).
std::string PercentEncoded(std::string_view text);
// "%2F" is a slash. What is no such escape stays as it is.
std::string PercentDecoded(std::string_view text);

}  // namespace lockstep
