#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace lockstep::cli {

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
