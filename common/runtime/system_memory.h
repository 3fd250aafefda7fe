#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// Bytes that this process could still take: what the kernel counts as available (MemAvailable), but
// no more than what is left below the limit of the process's container (control groups, version 2).
// Cached files do not count as taken. None where the kernel does not say.
std::optional<uint64_t> AvailableMemoryBytes();

// The files that say so. A text is empty where there is no such file.
struct MemoryTexts {
  std::string meminfo;  // /proc/meminfo
  std::string max;      // memory.max of the control group, and so on
  std::string current;
  std::string stat;
};
std::optional<uint64_t> AvailableMemoryBytes(const MemoryTexts& texts);

}  // namespace lockstep
