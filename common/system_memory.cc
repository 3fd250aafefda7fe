#include "common/system_memory.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

namespace lockstep {
namespace {

std::optional<uint64_t> ParseBytes(absl::string_view text) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

// A file of /proc or /sys has no size before it is read. Empty if there is none.
std::string ReadSystemFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A line reads "MemAvailable:   12345 kB".
std::optional<uint64_t> MemAvailable(const std::string& meminfo) {
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::StartsWith(line, "MemAvailable:")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const std::optional<uint64_t> kib = words.size() < 2 ? std::nullopt : ParseBytes(words[1]);
    if (kib.has_value()) return *kib << 10;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> AvailableMemoryBytes(const std::string& meminfo, const std::string& max,
                                             const std::string& current) {
  const std::optional<uint64_t> available = MemAvailable(meminfo);
  const std::optional<uint64_t> limit = ParseBytes(max);  // "max" where there is none
  const std::optional<uint64_t> used = ParseBytes(current);
  if (!limit.has_value() || !used.has_value()) return available;
  const uint64_t left = *limit - std::min(*limit, *used);
  return available.has_value() ? std::min(*available, left) : left;
}

std::optional<uint64_t> AvailableMemoryBytes() {
  return AvailableMemoryBytes(ReadSystemFile("/proc/meminfo"),
                              ReadSystemFile("/sys/fs/cgroup/memory.max"),
                              ReadSystemFile("/sys/fs/cgroup/memory.current"));
}

}  // namespace lockstep
