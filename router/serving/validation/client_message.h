#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>

namespace lockstep::router {

// What a client is told of an error, whatever its call came over: the status's message as valid
// UTF-8, cut to so many bytes. Together with its details it fits into the metadata of gRPC. Every
// transport takes messages from here: those of libraries and workers have no bound of their own.
inline constexpr size_t kMaxClientMessageBytes = 1024;
std::string ClientMessage(const absl::Status& status);

}  // namespace lockstep::router
