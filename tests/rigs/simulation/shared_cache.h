#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"

namespace lockstep::bench {

// The cache that placement is measured against: one that all replicas would share, of their total
// size, least recently used block first. It knows a request's whole text as soon as the request
// comes.
class SharedCache {
 public:
  SharedCache(uint64_t num_blocks, uint32_t block_size_tokens);

  // How many leading tokens of the prompt it holds (never all: the last one is always computed);
  // afterwards it holds prompt and output.
  uint32_t Serve(std::string_view salt, std::span<const TokenId> prompt,
                 std::span<const TokenId> output);

 private:
  struct Entry {
    uint64_t prefix = 0;
    uint32_t newer = 0;
    uint32_t older = 0;
  };

  void Unlink(uint32_t entry);
  void PushNewest(uint32_t entry);
  void Use(uint64_t prefix);

  const uint32_t block_size_tokens_;
  const size_t max_entries_;
  std::vector<Entry> entries_;  // entry 0 closes the ring: its `older` is the newest
  absl::flat_hash_map<uint64_t, uint32_t> entry_of_;
};

}  // namespace lockstep::bench
