#pragma once

#include <absl/status/status.h>

#include <string>

namespace lockstep::cli {

// Makes `path` and the missing folders above it. The new ones have mode 0700 regardless of the
// umask. Existing folders stay as they are.
absl::Status MakePrivateFolders(const std::string& path);

}  // namespace lockstep::cli
