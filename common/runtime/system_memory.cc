#include "common/runtime/system_memory.h"

#include <absl/strings/ascii.h>
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

// The text of a file of /proc or /sys, which has no size before it is read. Empty if there is no
// such file.
std::string ReadSystemFile(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The number after `name` in lines of "name number ...".
std::optional<uint64_t> NumberOf(absl::string_view name, const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() >= 2 && words[0] == name) return ParseBytes(words[1]);
  }
  return std::nullopt;
}

std::optional<uint64_t> MemAvailable(const std::string& meminfo) {
  const std::optional<uint64_t> kib = NumberOf("MemAvailable:", meminfo);
  return kib.has_value() ? std::optional<uint64_t>(*kib << 10) : std::nullopt;
}

// Memory of a container that the kernel would reclaim before it refuses an allocation.
uint64_t Reclaimable(const std::string& stat) {
  uint64_t bytes = 0;
  for (const char* name : {"inactive_file", "active_file", "slab_reclaimable"}) {
    bytes += NumberOf(name, stat).value_or(0);
  }
  return bytes;
}

}  // namespace

std::optional<uint64_t> AvailableMemoryBytes(const MemoryTexts& texts) {
  const std::optional<uint64_t> available = MemAvailable(texts.meminfo);
  const std::optional<uint64_t> limit = ParseBytes(texts.max);  // "max" where there is none
  const std::optional<uint64_t> current = ParseBytes(texts.current);
  if (!limit.has_value() || !current.has_value()) return available;
  const uint64_t taken = *current - std::min(*current, Reclaimable(texts.stat));
  const uint64_t left = *limit - std::min(*limit, taken);
  return available.has_value() ? std::min(*available, left) : left;
}

std::optional<uint64_t> AvailableMemoryBytes() {
  return AvailableMemoryBytes({.meminfo = ReadSystemFile("/proc/meminfo"),
                               .max = ReadSystemFile("/sys/fs/cgroup/memory.max"),
                               .current = ReadSystemFile("/sys/fs/cgroup/memory.current"),
                               .stat = ReadSystemFile("/sys/fs/cgroup/memory.stat")});
}

}  // namespace lockstep
