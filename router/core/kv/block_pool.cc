#include "router/core/kv/block_pool.h"

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {

BlockPool::BlockPool(uint32_t num_blocks) : blocks_(num_blocks) {
  free_.reserve(num_blocks);
  for (BlockId block = num_blocks; block-- > 0;) free_.push_back(block);
}

BlockCounts BlockPool::Counts() const {
  return {.free = num_free(),
          .used = num_used_,
          .cached = num_blocks() - num_free() - num_used_ - num_fenced_,
          .fenced = num_fenced_};
}

BlockId BlockPool::TakeFree() {
  LOCKSTEP_CHECK(!free_.empty(), "no free block among {}", num_blocks());
  const BlockId block = free_.back();
  free_.pop_back();
  blocks_[block].is_free = false;
  return block;
}

void BlockPool::PutFree(BlockId block) {
  Block& state = blocks_[block];
  LOCKSTEP_CHECK(!state.is_free && state.references == 0, "block {} is free or referenced", block);
  state.is_free = true;
  free_.push_back(block);
}

void BlockPool::Reference(BlockId block) {
  Block& state = blocks_[block];
  LOCKSTEP_CHECK(!state.is_free, "block {} is free", block);
  if (state.references == state.fenced) {
    ++num_used_;
    if (state.fenced > 0) --num_fenced_;
  }
  ++state.references;
}

void BlockPool::Fence(BlockId block) {
  Block& state = blocks_[block];
  LOCKSTEP_CHECK(state.fenced < state.references, "block {} has no unfenced reference", block);
  ++state.fenced;
  if (state.references == state.fenced) {
    --num_used_;
    ++num_fenced_;
  }
}

bool BlockPool::Unreference(BlockId block, bool fenced) {
  Block& state = blocks_[block];
  LOCKSTEP_CHECK(fenced ? state.fenced > 0 : state.fenced < state.references,
                 "block {} has no such reference", block);
  const bool was_fenced = state.fenced == state.references;
  --state.references;
  if (fenced) --state.fenced;
  const bool is_fenced = state.references > 0 && state.fenced == state.references;
  if (was_fenced) {
    if (!is_fenced) --num_fenced_;
  } else if (state.references == state.fenced) {
    --num_used_;
    if (is_fenced) ++num_fenced_;
  }
  return state.references == 0;
}

absl::Status BlockPool::CheckIntegrity(const std::vector<uint32_t>& references,
                                       const std::vector<uint32_t>& fenced) const {
  std::vector<bool> listed(blocks_.size(), false);
  for (BlockId block : free_) {
    if (block >= blocks_.size()) return Internal("free list: block {} does not exist", block);
    if (listed[block]) return Internal("free list: block {} is listed twice", block);
    listed[block] = true;
  }
  uint32_t num_used = 0;
  uint32_t num_fenced = 0;
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    if (block.is_free != listed[id]) return Internal("block {}: free list and flag disagree", id);
    if (block.references != references[id] || block.fenced != fenced[id]) {
      return Internal("block {}: {} references ({} fenced) counted, {} ({}) recorded", id,
                      references[id], fenced[id], block.references, block.fenced);
    }
    if (block.is_free && block.references > 0) return Internal("block {}: free but referenced", id);
    if (block.references > block.fenced) ++num_used;
    if (block.references > 0 && block.references == block.fenced) ++num_fenced;
  }
  if (num_used != num_used_ || num_fenced != num_fenced_) {
    return Internal("{} blocks used and {} fenced, {} and {} recorded", num_used, num_fenced,
                    num_used_, num_fenced_);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
