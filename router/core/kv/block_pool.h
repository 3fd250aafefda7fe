#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// The number of KV blocks of one worker in each state. The four counts always add up to the pool.
struct BlockCounts {
  uint32_t free = 0;    // nothing in it
  uint32_t used = 0;    // a running sequence refers to it
  uint32_t cached = 0;  // no sequence refers to it, but the prefix index remembers its content
  uint32_t fenced = 0;  // only sequences without a slot refer to it, until their last step returns
};

// Owns the reference counts of the KV blocks of one worker. Knows no tokens and no prefixes. When
// the caller drops the last reference to a block, the caller decides whether the block becomes free
// (PutFree) or stays cached.
class BlockPool {
 public:
  explicit BlockPool(uint32_t num_blocks);

  uint32_t num_blocks() const { return static_cast<uint32_t>(blocks_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t num_references(BlockId block) const { return blocks_[block].references; }
  BlockCounts Counts() const;

  // Takes a free block. It has no references yet. At least one block must be free.
  BlockId TakeFree();
  // Makes a block free. It must have no references and must not be in the prefix index.
  void PutFree(BlockId block);

  void Reference(BlockId block);
  // Marks one reference to the block as fenced.
  void Fence(BlockId block);
  // Drops one reference, a fenced one if `fenced`. Returns true if it was the last.
  bool Unreference(BlockId block, bool fenced);

  // Compares with references that the caller counted: for each block, all of them and the fenced
  // ones.
  absl::Status CheckIntegrity(const std::vector<uint32_t>& references,
                              const std::vector<uint32_t>& fenced) const;

 private:
  struct Block {
    uint32_t references = 0;
    uint32_t fenced = 0;  // how many of the references are fenced
    bool is_free = true;
  };

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;  // a stack
  uint32_t num_used_ = 0;
  uint32_t num_fenced_ = 0;
};

}  // namespace lockstep::router
