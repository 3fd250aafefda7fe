#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/block_pool.h"
#include "router/core/kv/block_table.h"
#include "router/core/kv/kv_group.h"
#include "router/core/kv/prefix_index.h"
#include "router/core/kv/side_group.h"

namespace lockstep::router {

// What an admission would take. A probe takes nothing.
struct KvProbe {
  struct Group {
    uint32_t num_new_blocks = 0;
    uint32_t num_cached_hit_blocks = 0;  // of the hit: available until it is taken
  };

  PrefixMatch hit;  // in the first group
  absl::InlinedVector<Group, 1> groups;

  // Blocks that must be available, so that `headroom_blocks` are left in each group.
  BlockCountByGroup Needed(uint32_t headroom_blocks) const;
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

// The KV blocks of one worker lease, in one or several groups. Owns a pool for each group, which
// knows who refers to a block, and the prefix index, which knows the tokens in a block. Group 0
// keeps all tokens, and its blocks are the nodes of the index. SideGroup holds the others. A call
// takes every block that it needs in every group, or changes nothing.
class KvCache {
 public:
  // `groups` must be valid. `changes` receives each block of a prefix, in each group. It may be
  // null, and must outlive the cache.
  explicit KvCache(const KvGroups& groups, PrefixChanges* changes = nullptr);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  uint32_t num_groups() const { return num_groups_; }
  uint32_t num_blocks() const { return pool_.num_blocks(); }
  uint32_t BlocksFor(uint64_t num_tokens) const {
    return static_cast<uint32_t>((num_tokens + block_size_tokens_ - 1) / block_size_tokens_);
  }
  // Blocks that can be taken now: free blocks, and cached blocks without a busy child.
  uint32_t num_available(uint32_t group = 0) const {
    return group == 0 ? pool_.num_free() + index_.num_idle()
                      : side_groups_[group - 1].num_available();
  }
  // True if every group has so many blocks available, multiplied by `times`. Groups that are not
  // listed do not count.
  bool Has(const BlockCountByGroup& wanted, uint64_t times = 1) const;
  // The same, once all fenced blocks have come back.
  bool WillHave(const BlockCountByGroup& wanted) const;
  // False if a sequence of so many blocks never fits.
  bool CanHold(uint32_t num_blocks) const;
  // The most blocks that `table` can cover now.
  uint32_t MostCovered(const BlockTable& table) const;
  BlockCounts Counts(uint32_t group = 0) const {
    return group == 0 ? pool_.Counts() : side_groups_[group - 1].Counts();
  }
  uint32_t num_index_nodes() const { return index_.num_nodes(); }

  // Looks for room for all `tokens`; in a window group, for as many as a window needs. A hit covers
  // at most the first `max_hit_tokens` of them. It is the longest that every group can serve.
  KvProbe Probe(const PrefixRoot& root, std::span<const TokenId> tokens,
                uint32_t max_hit_tokens) const;
  // Takes what `probe` found. Nothing may have changed since the probe, and it must fit.
  BlockTable Take(const KvProbe& probe);
  // Adds the blocks that `table` lacks to cover `num_blocks` in every group.
  void AddMissing(const BlockTable& table, uint32_t num_blocks, BlockCountByGroup& missing) const;
  // Appends blocks, so that every group covers `num_blocks`. They must be available.
  void GrowTo(BlockTable& table, uint32_t num_blocks);
  // Gives back the blocks of window groups that lie behind the window, now that the KV of so many
  // tokens is acknowledged. A fenced table keeps them.
  void DropBehind(BlockTable& table, uint32_t num_computed) {
    if (num_groups_ > 1 && !table.fenced()) DropBehindWindows(table, num_computed);
  }
  // Call when the owner is gone but steps in flight still use the blocks.
  void Fence(BlockTable& table);
  // Publishes every full block of `computed` to the index. The KV of all these tokens must be in
  // `table` for certain.
  void Publish(const BlockTable& table, const PrefixRoot& root, std::span<const TokenId> computed,
               PublishedPrefix& published, PublishBelow below = PublishBelow::kAnyBlock);

  // `tables`: every block table that is alive.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  friend class BlockTable;

  BlockId TakeBlock();
  void Append(BlockTable& table, uint32_t group, uint32_t num_new_blocks);
  // Tells the side groups that the table's blocks in this place hold the tokens of `node`.
  void AttachSides(const BlockTable& table, uint32_t place, BlockId node);
  void Reference(BlockId block);
  void Release(BlockTable& table);
  // Cuts the hit down to what every side group can serve.
  void Shorten(PrefixMatch& hit) const;
  // Blocks that an admission takes in a side group after a hit.
  static uint32_t NumToStart(const KvGroup& group, uint32_t num_hit_blocks, uint32_t num_blocks);
  void DropBehindWindows(BlockTable& table, uint32_t num_computed);
  absl::Status CheckGroup(std::span<const BlockTable* const> tables, uint32_t group) const;

  const KvGroups groups_;
  const uint32_t num_groups_;
  const uint32_t block_size_tokens_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<SideGroup> side_groups_;  // group 1 and so on
};

}  // namespace lockstep::router
