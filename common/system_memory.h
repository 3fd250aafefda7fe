#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// Bytes that this process could still take: what the kernel counts as available (MemAvailable), but
// no more than what is left below the limit of the process's container (control groups, version 2).
// None where the kernel does not say.
std::optional<uint64_t> AvailableMemoryBytes();

// The same from the texts of /proc/meminfo, memory.max and memory.current; empty ones are not there.
std::optional<uint64_t> AvailableMemoryBytes(const std::string& meminfo, const std::string& max,
                                             const std::string& current);

}  // namespace lockstep
