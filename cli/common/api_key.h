#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace lockstep::cli {

// The value of --api-key: the key itself, or "@FILE" for the content of a file. The key must be one
// word that an HTTP header and gRPC metadata may carry; it may be empty. INVALID_ARGUMENT, or the
// error of the file.
absl::StatusOr<std::string> ReadApiKey(std::string text);

}  // namespace lockstep::cli
