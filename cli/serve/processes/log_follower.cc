#include "cli/serve/processes/log_follower.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace lockstep::cli {
namespace {

constexpr std::string_view kLoading = "loading ";

// `text` begins after "loading ".
std::optional<LoadingProgress> ParseProgress(std::string_view text) {
  const size_t colon = text.find(": ");
  const size_t percent = text.find(" %");
  if (colon == std::string_view::npos || percent == std::string_view::npos || percent < colon + 2) {
    return std::nullopt;
  }
  LoadingProgress progress{.stage = std::string(text.substr(0, colon))};
  const std::string number(text.substr(colon + 2, percent - colon - 2));
  if (!absl::SimpleAtoi(number, &progress.percent)) return std::nullopt;
  return progress;
}

std::string ReadFrom(const std::string& path, uint64_t offset) {
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  if (!stream.good()) return {};
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

}  // namespace

std::optional<LoadingProgress> FindProgress(std::string_view text) {
  for (size_t at = text.rfind(kLoading); at != std::string_view::npos;) {
    const std::string_view line = text.substr(at + kLoading.size());
    if (auto progress = ParseProgress(line.substr(0, line.find('\n')))) return progress;
    if (at == 0) break;
    at = text.rfind(kLoading, at - 1);
  }
  return std::nullopt;
}

void LogFollower::SkipToEnd() {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path_, error);
  start_ = error ? 0 : size;
  offset_ = start_;
}

std::string LogFollower::ReadNew() {
  std::string text = ReadFrom(path_, offset_);
  const size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  offset_ += text.size();
  return text;
}

std::string LogFollower::LastLines(size_t num_lines) const {
  constexpr uint64_t kMaxBytes = 64 << 10;
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path_, error);
  if (error) return {};
  std::string text = ReadFrom(path_, size - start_ > kMaxBytes ? size - kMaxBytes : start_);
  while (text.ends_with('\n')) text.pop_back();
  size_t start = text.size();
  for (size_t i = 0; i < num_lines && start != std::string::npos && start > 0; ++i) {
    start = text.rfind('\n', start - 1);
  }
  return start == std::string::npos || start == 0 ? text : text.substr(start + 1);
}

}  // namespace lockstep::cli
