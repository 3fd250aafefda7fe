#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// Where every KV block of one worker is. The four counts always add up to the pool.
struct BlockCounts {
  uint32_t free = 0;    // nothing in it
  uint32_t used = 0;    // a running sequence refers to it
  uint32_t cached = 0;  // nobody refers to it, the prefix index remembers what is in it
  uint32_t fenced = 0;  // only sequences that gave up their slot refer to it, until their last step
                        // is acknowledged
};

// Reference counts of the KV blocks of one worker. Knows no tokens and no prefixes; whoever drops a
// last reference decides whether the block becomes free (PutFree) or stays cached.
class BlockPool {
 public:
  explicit BlockPool(uint32_t num_blocks);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t num_references(BlockId block) const { return blocks_[block].references; }
  BlockCounts Counts() const;

  // A free block, unreferenced. One must be there.
  BlockId TakeFree();
  // An unreferenced block that nothing remembers.
  void PutFree(BlockId block);

  void Reference(BlockId block);
  // Turns one reference into one that only fences.
  void Fence(BlockId block);
  // Drops one reference, `fenced` or not; true when it was the last.
  bool Unreference(BlockId block, bool fenced);

  // Compares with references counted by the caller: per block, all and the fenced ones among them.
  absl::Status CheckIntegrity(const std::vector<uint32_t>& references,
                              const std::vector<uint32_t>& fenced) const;

 private:
  struct Block {
    uint32_t references = 0;
    uint32_t fenced = 0;  // of the references
    bool is_free = true;
  };

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;  // a stack
  uint32_t num_used_ = 0;
  uint32_t num_fenced_ = 0;
};

}  // namespace lockstep::router
