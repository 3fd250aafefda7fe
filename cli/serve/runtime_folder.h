#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::cli {

// The folder where `lockstep serve` keeps its logs and the link to its control socket: `log_dir` if
// it is given, else one below the user's cache that is named after host and port.
std::string LogFolder(const std::string& host, uint16_t port,
                      const std::optional<std::string>& log_dir);

// The name of that link. Servers with other hosts or ports may have the same folder.
std::string ControlLinkName(const std::string& host, uint16_t port);

// A private folder for sockets below /tmp, of mode 0700. The destructor removes it with its
// content.
class RuntimeFolder {
 public:
  static absl::StatusOr<RuntimeFolder> Make();

  RuntimeFolder(RuntimeFolder&& other) noexcept;
  RuntimeFolder& operator=(RuntimeFolder&&) = delete;
  ~RuntimeFolder();

  const std::string& path() const { return path_; }

 private:
  explicit RuntimeFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: moved away
};

}  // namespace lockstep::cli
