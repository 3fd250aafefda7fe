#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>

namespace lockstep::router {

// The text of an error for a client, over any transport: the status's message as valid UTF-8, cut
// to so many bytes. Together with its details it fits into gRPC metadata. Every transport must use
// this, because messages from libraries and workers have no bound of their own.
inline constexpr size_t kMaxClientMessageBytes = 1024;
std::string ClientMessage(const absl::Status& status);

}  // namespace lockstep::router
