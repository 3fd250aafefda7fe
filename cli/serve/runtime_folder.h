#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace lockstep::cli {

// A private folder for sockets, of mode 0700, below /tmp. Removed with what is
// in it at the end.
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
