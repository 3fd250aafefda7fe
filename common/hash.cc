#include "common/hash.h"

#include <xxhash.h>

#include <array>

namespace lockstep {

uint64_t Hash64(std::span<const std::byte> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t Hash64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

uint64_t CombineHashes(uint64_t a, uint64_t b) {
  const std::array<uint64_t, 2> pair = {a, b};
  return XXH3_64bits(pair.data(), sizeof(pair));
}

}  // namespace lockstep
