#include "cli/serve/runtime_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/common/environment.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

// Two servers may listen at one port of different addresses.
std::string ServerName(const std::string& host, uint16_t port) {
  return host == "127.0.0.1" ? std::to_string(port) : fmt::format("{}-{}", host, port);
}

}  // namespace

std::string LogFolder(const std::string& host, uint16_t port,
                      const std::optional<std::string>& log_dir) {
  if (log_dir) return *log_dir;
  return UserFolder("XDG_CACHE_HOME", ".cache") + "/lockstep/logs/" + ServerName(host, port);
}

std::string ControlLinkName(const std::string& host, uint16_t port) {
  return fmt::format("serve-{}.control", ServerName(host, port));
}

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
