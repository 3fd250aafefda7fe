#include "router/core/kv/prefix_changes.h"

#include <algorithm>

#include "common/hash.h"

namespace lockstep::router {

uint64_t ExtendPrefixHash(uint64_t prefix, std::span<const TokenId> block) {
  return Hash64(std::as_bytes(block), prefix);
}

uint64_t PrefixInGroup(uint64_t prefix, uint32_t group) {
  return group == 0 ? prefix : CombineHashes(prefix, group);
}

std::vector<PrefixChanges::Change> PrefixChanges::Take(size_t max_count) {
  std::vector<Change> taken;
  taken.reserve(std::min(max_count, changes_.size()));
  for (auto it = changes_.begin(); it != changes_.end() && taken.size() < max_count;) {
    taken.push_back({.prefix = it->first, .learned = it->second});
    changes_.erase(it++);
  }
  return taken;
}

}  // namespace lockstep::router
