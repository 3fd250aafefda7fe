#pragma once

#include <absl/status/status.h>

#include <string>

namespace lockstep::cli {

// Makes `path` and the folders above it, as far as they are missing. The new ones have mode 0700,
// whatever the umask says. Folders that exist stay as they are.
absl::Status MakePrivateFolders(const std::string& path);

}  // namespace lockstep::cli
