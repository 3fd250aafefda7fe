#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Keeps visible ASCII except '%' and writes other bytes as %XX, as gRPC's grpc-message needs it
// (PROTOCOL-HTTP2.md of gRPC).
std::string PercentEncoded(std::string_view text);
// "%2F" becomes a slash. Text that is no such escape stays unchanged.
std::string PercentDecoded(std::string_view text);

}  // namespace lockstep
