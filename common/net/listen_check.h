#pragma once

#include <absl/status/status.h>

#include <string>

namespace lockstep {

// Whether a server could listen at "host:port" or "unix:PATH" now. INVALID_ARGUMENT or UNAVAILABLE
// naming the address. Nothing listens there afterwards, so another process may still come first.
absl::Status CheckCanListen(const std::string& address);

}  // namespace lockstep
