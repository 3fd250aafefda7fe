#include "cli/serve/log_folder.h"

#include <fmt/format.h>

#include "cli/common/environment.h"

namespace lockstep::cli {

std::string LogFolder(const std::string& host, uint16_t port,
                      const std::optional<std::string>& log_dir) {
  if (log_dir) return *log_dir;
  // Two servers may listen at one port of different addresses.
  const std::string name =
      host == "127.0.0.1" ? std::to_string(port) : fmt::format("{}-{}", host, port);
  return UserFolder("XDG_CACHE_HOME", ".cache") + "/lockstep/logs/" + name;
}

}  // namespace lockstep::cli
