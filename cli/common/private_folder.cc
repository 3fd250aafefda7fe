#include "cli/common/private_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "common/status.h"

namespace lockstep::cli {

absl::Status MakePrivateFolders(const std::string& path) {
  std::filesystem::path folder;
  for (const std::filesystem::path& part : std::filesystem::path(path)) {
    folder /= part;
    if (mkdir(folder.c_str(), S_IRWXU) == 0) continue;
    const int error = errno;
    // Other errors than EEXIST come for folders that exist, too: the file system may be read-only.
    std::error_code ignored;
    if (!std::filesystem::is_directory(folder, ignored)) {
      return Unavailable("{}: {}", folder.string(),
                         std::strerror(error == EEXIST ? ENOTDIR : error));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::cli
