#include "router/core/prefix_changes.h"

#include "common/hash.h"

namespace lockstep::router {

uint64_t PrefixRootHash(std::string_view salt, uint32_t block_size_tokens) {
  return Hash64(salt, block_size_tokens);
}

uint64_t ExtendPrefixHash(uint64_t prefix, std::span<const TokenId> block) {
  return Hash64(std::as_bytes(block), prefix);
}

}  // namespace lockstep::router
