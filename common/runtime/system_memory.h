#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// Bytes that this process could still allocate: the kernel's MemAvailable, but not more than its
// container's limit leaves (control groups, version 2). Cached files count as available. None if
// the kernel does not report it.
std::optional<uint64_t> AvailableMemoryBytes();

// The texts of the kernel's files. A text is empty if there is no such file.
struct MemoryTexts {
  std::string meminfo;  // /proc/meminfo
  std::string max;      // memory.max of the control group, and so on
  std::string current;
  std::string stat;
};
std::optional<uint64_t> AvailableMemoryBytes(const MemoryTexts& texts);

}  // namespace lockstep
