#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// A prefix of full blocks as one number, which is the same on every replica. The hash of a block is
// seeded with the hash of the prefix before it, the first with the hash of the root and the block
// size (PrefixRootHash). A collision can only mislead a placement, because the indexes themselves
// compare tokens.
uint64_t ExtendPrefixHash(uint64_t prefix, std::span<const TokenId> block);

// The last block of a prefix in one KV group. In the first group it is the prefix itself.
uint64_t PrefixInGroup(uint64_t prefix, uint32_t group);

// Changes of a replica's prefix index that were not reported to others yet: prefixes that it
// learned, and prefixes that it forgot, those of further KV groups included. Holds at most as many
// entries as the index held at the last report plus as many as it holds now.
class PrefixChanges {
 public:
  void Learn(uint64_t prefix) { Note(prefix, true); }
  void Forget(uint64_t prefix) { Note(prefix, false); }

  bool empty() const { return changes_.empty(); }
  size_t size() const { return changes_.size(); }

  struct Change {
    uint64_t prefix = 0;
    bool learned = false;  // false: forgotten
  };
  // Removes and returns up to `max_count` changes, in no particular order.
  std::vector<Change> Take(size_t max_count);

 private:
  void Note(uint64_t prefix, bool learned) {
    const auto [entry, added] = changes_.try_emplace(prefix, learned);
    // Learning and forgetting cancel each other if the first of the two was not taken yet.
    if (!added && entry->second != learned) changes_.erase(entry);
  }

  absl::flat_hash_map<uint64_t, bool> changes_;  // prefix -> true: learned, false: forgotten
};

}  // namespace lockstep::router
