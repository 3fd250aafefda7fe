#include "cli/serve/runtime_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/status.h"

namespace lockstep::cli {

absl::StatusOr<RuntimeFolder> RuntimeFolder::Make() {
  // Not in XDG_RUNTIME_DIR: that folder goes when the user logs out, but a server under nohup
  // stays.
  std::string path = "/tmp/lockstep-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return Unavailable("{}: {}", path, std::strerror(errno));
  return RuntimeFolder(path);
}

RuntimeFolder::RuntimeFolder(RuntimeFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})) {}

RuntimeFolder::~RuntimeFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::cli
