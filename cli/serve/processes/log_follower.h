#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {

// How far a worker is with its model: "loading weights: 30 %" in its log.
struct LoadingProgress {
  std::string stage;
  int percent = 0;

  friend bool operator==(const LoadingProgress&, const LoadingProgress&) = default;
};
// The progress in the last such line of the text. Pure.
std::optional<LoadingProgress> FindProgress(std::string_view text);

// Reads the lines that are appended to a log.
class LogFollower {
 public:
  explicit LogFollower(std::string path) : path_(std::move(path)) {}

  // Skips everything that is in the log now.
  void SkipToEnd();
  // The lines that are new since the last call. A line that is not complete is left for a later
  // call.
  std::string ReadNew();
  // The last lines since SkipToEnd, at most `num_lines` of them and 64 KiB.
  std::string LastLines(size_t num_lines) const;

 private:
  const std::string path_;
  uint64_t start_ = 0;   // in bytes: where SkipToEnd stopped
  uint64_t offset_ = 0;  // in bytes: where ReadNew stopped
};

}  // namespace lockstep::cli
