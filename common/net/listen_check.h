#pragma once

#include <absl/status/status.h>

#include <string>

namespace lockstep {

// Checks if a server could listen at "host:port" or "unix:PATH" now. INVALID_ARGUMENT or
// UNAVAILABLE names the address. The address is free again afterwards, so another process may still
// take it.
absl::Status CheckCanListen(const std::string& address);

}  // namespace lockstep
