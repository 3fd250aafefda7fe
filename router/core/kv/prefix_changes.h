#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// A prefix of full blocks as one number, the same whichever replica holds it: the hash of a block
// after the hash of what is before it, from a root that takes the salt and the size of a block. A
// collision misleads a placement and nothing else; the indexes themselves compare tokens.
uint64_t PrefixRootHash(std::string_view salt, uint32_t block_size_tokens);
uint64_t ExtendPrefixHash(uint64_t prefix, std::span<const TokenId> block);

// How a replica's prefix index differs from what others were told of it: prefixes that it learned
// and prefixes that it forgot. Never more than it held then and holds now.
class PrefixChanges {
 public:
  void Learn(uint64_t prefix) { Note(prefix, true); }
  void Forget(uint64_t prefix) { Note(prefix, false); }

  bool empty() const { return changes_.empty(); }
  size_t size() const { return changes_.size(); }

  struct Change {
    uint64_t prefix = 0;
    bool learned = false;  // else forgotten
  };
  // Takes up to `max_count` changes out, in no particular order.
  std::vector<Change> Take(size_t max_count);

 private:
  void Note(uint64_t prefix, bool learned) {
    const auto [entry, added] = changes_.try_emplace(prefix, learned);
    // The opposite of what is still untold: nothing changed.
    if (!added && entry->second != learned) changes_.erase(entry);
  }

  absl::flat_hash_map<uint64_t, bool> changes_;  // prefix -> learned, not forgotten
};

}  // namespace lockstep::router
