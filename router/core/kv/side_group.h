#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <list>
#include <vector>

#include "common/check.h"
#include "common/ids.h"
#include "router/core/kv/block_pool.h"
#include "router/core/kv/kv_group.h"
#include "router/core/kv/prefix_changes.h"

namespace lockstep::router {

// The blocks of a group other than the first. The first group's blocks are the nodes of the prefix
// index. A node has one block here, with the same tokens, or none. A block of a node without
// references is cached.
//
// Blocks that fell behind the window of a running sequence are evicted before other cached blocks.
// Otherwise one long text would push out the ends of all others, and a prefix without its end
// cannot be reused. Among equals the block that is cached longest goes first.
class SideGroup {
 public:
  // `index`: of the group, 1 or more. `num_nodes`: blocks of the first group. `changes` may be
  // null.
  SideGroup(uint32_t index, const KvGroup& group, uint32_t num_nodes, PrefixChanges* changes);

  const KvGroup& description() const { return group_; }
  // Free and cached blocks.
  uint32_t num_available() const { return pool_.num_free() + num_cached(); }
  BlockCounts Counts() const { return pool_.Counts(); }

  // The block that holds the tokens of `node`, or kNoBlock.
  BlockId BlockOf(BlockId node) const { return block_of_node_[node]; }
  bool IsCached(BlockId block) const {
    LOCKSTEP_CHECK(block < places_.size(), "block {} does not exist", block);
    return places_[block].list != kInNoList;
  }
  // Says that `block` holds the tokens of `node`. Does nothing if the node has a block already.
  // `block` must be referenced and must belong to no node. `prefix`: hash of the node's prefix.
  void Attach(BlockId node, BlockId block, uint64_t prefix);
  // The first group evicted the node.
  void Detach(BlockId node);
  // The same for every node.
  void DetachAll();

  // Takes a block that must be available, and references it.
  BlockId Take();
  void Reference(BlockId block);
  void Fence(BlockId block) { pool_.Fence(block); }
  enum class Why { kEnded, kBehindWindow };
  void Unreference(BlockId block, bool fenced, Why why);

  // `references` and `fenced`: see BlockPool.
  absl::Status CheckIntegrity(const std::vector<uint32_t>& references,
                              const std::vector<uint32_t>& fenced) const;

 private:
  static constexpr uint32_t kInNoList = 2;

  // Where a block is cached.
  struct Place {
    uint32_t list = kInNoList;
    std::list<BlockId>::iterator at;
  };

  uint32_t num_cached() const {
    return static_cast<uint32_t>(cached_[0].size() + cached_[1].size());
  }
  void Uncache(BlockId block);
  void Separate(BlockId node, BlockId block);

  const uint32_t index_;
  const KvGroup group_;
  PrefixChanges* const changes_;
  BlockPool pool_;
  std::vector<BlockId> block_of_node_;
  std::vector<BlockId> node_of_block_;
  std::vector<uint64_t> prefix_of_block_;     // as in `changes_`; of blocks that belong to a node
  std::array<std::list<BlockId>, 2> cached_;  // in order of eviction: behind a window, the rest
  std::vector<Place> places_;                 // by block
};

}  // namespace lockstep::router
