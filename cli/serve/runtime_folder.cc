#include "cli/serve/runtime_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/environment.h"
#include "common/status.h"

namespace lockstep::cli {

absl::StatusOr<RuntimeFolder> RuntimeFolder::Make() {
  // A socket's path has at most 107 characters.
  constexpr size_t kMaxParentLength = 64;
  std::string parent = EnvironmentValue("XDG_RUNTIME_DIR").value_or("/tmp");
  std::error_code error;
  if (parent.size() > kMaxParentLength || !std::filesystem::is_directory(parent, error)) {
    parent = "/tmp";
  }
  std::string path = parent + "/lockstep-XXXXXX";
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
