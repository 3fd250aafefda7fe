#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

// XXH3-64. Not cryptographic: for fingerprints, and for tables that compare hits exactly.
uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed = 0);
uint64_t Hash64(std::string_view text, uint64_t seed = 0);

// Order-dependent mix of two hashes.
uint64_t CombineHashes(uint64_t a, uint64_t b);

}  // namespace lockstep
