#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep::router {

// What two texts must have in common, besides their first tokens, to share KV. Each root has a
// prefix tree of its own.
struct PrefixRoot {
  std::string salt = {};     // who may share: the tenant's group, and the client's own salt
  std::string adapter = {};  // empty: the model alone
  uint64_t revision = 0;     // of the adapter's weights

  auto operator<=>(const PrefixRoot&) const = default;
};

// The root as one number, which is the same on every replica. Every prefix hash starts from it
// (ExtendPrefixHash).
uint64_t PrefixRootHash(const PrefixRoot& root, uint32_t block_size_tokens);

}  // namespace lockstep::router
