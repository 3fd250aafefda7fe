#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/block_pool.h"
#include "router/core/kv/prefix_index.h"

namespace lockstep::router {

class KvCache;

// The blocks of one sequence, in order of position. Each block holds one reference, which the
// destructor gives back. Must not outlive its KvCache.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable();

  const std::vector<BlockId>& ids() const { return ids_; }
  uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }
  bool fenced() const { return fenced_; }

 private:
  friend class KvCache;

  KvCache* cache_ = nullptr;
  std::vector<BlockId> ids_;
  bool fenced_ = false;
};

// What an admission would take. A probe takes nothing.
struct KvProbe {
  PrefixMatch hit;
  uint32_t num_new_blocks = 0;
  uint32_t num_available_blocks = 0;  // available blocks that are not part of the hit

  uint32_t num_needed_blocks(uint32_t headroom_blocks) const {
    return num_new_blocks + headroom_blocks;
  }
  bool Fits(uint32_t headroom_blocks) const {
    return num_needed_blocks(headroom_blocks) <= num_available_blocks;
  }
};

// How many blocks of a sequence the prefix index knows, and the node of the last one. The next full
// block goes below that node.
struct PublishedPrefix {
  uint32_t num_blocks = 0;
  PrefixNode last;
};

// A block may be published below a block of another sequence that has the same tokens. The other
// block then stays as long as the new one. So a sequence that never uses blocks of others publishes
// below its own blocks only. Otherwise it would keep blocks that it cannot use from being evicted.
enum class PublishBelow { kAnyBlock, kOwnBlock };

// The KV blocks of one worker lease. Owns the pool, which knows who refers to a block, and the
// prefix index, which knows the tokens in a block. A call takes every block that it needs, or
// changes nothing.
class KvCache {
 public:
  // `changes`: see PrefixIndex.
  KvCache(uint32_t num_blocks, uint32_t block_size_tokens, PrefixChanges* changes = nullptr);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  uint32_t num_blocks() const { return pool_.num_blocks(); }
  uint32_t BlocksFor(uint64_t num_tokens) const {
    return static_cast<uint32_t>((num_tokens + block_size_tokens_ - 1) / block_size_tokens_);
  }
  // Blocks that can be taken now: free blocks, and cached blocks without a busy child.
  uint32_t num_available() const { return pool_.num_free() + index_.num_idle(); }
  BlockCounts Counts() const { return pool_.Counts(); }
  uint32_t num_index_nodes() const { return index_.num_nodes(); }

  // Looks for room for all `tokens`. A hit covers at most the first `max_hit_tokens` of them.
  KvProbe Probe(const PrefixRoot& root, std::span<const TokenId> tokens,
                uint32_t max_hit_tokens) const;
  // Takes what `probe` found. Nothing may have changed since the probe, and it must fit.
  BlockTable Take(const KvProbe& probe);
  // Appends blocks. They must be available.
  void Grow(BlockTable& table, uint32_t num_new_blocks);
  // Call when the owner is gone but steps in flight still use the blocks.
  void Fence(BlockTable& table);
  // Publishes every full block of `computed` to the index. `computed`: tokens whose KV is known to
  // be in `table`.
  void Publish(const BlockTable& table, const PrefixRoot& root, std::span<const TokenId> computed,
               PublishedPrefix& published, PublishBelow below = PublishBelow::kAnyBlock);

  // `tables`: every block table that is alive.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  friend class BlockTable;

  BlockId TakeBlock();
  void Reference(BlockId block);
  void Release(BlockTable& table);

  const uint32_t block_size_tokens_;
  BlockPool pool_;
  PrefixIndex index_;
};

}  // namespace lockstep::router
