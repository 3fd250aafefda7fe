#include "router/core/kv/prefix_root.h"

#include "common/hash.h"

namespace lockstep::router {

uint64_t PrefixRootHash(const PrefixRoot& root, uint32_t block_size_tokens) {
  const uint64_t of_salt = Hash64(root.salt, block_size_tokens);
  if (root.adapter.empty() && root.revision == 0) return of_salt;
  return CombineHashes(of_salt, Hash64(root.adapter, root.revision));
}

}  // namespace lockstep::router
