#include "router/core/kv/side_group.h"

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {

SideGroup::SideGroup(uint32_t index, const KvGroup& group, uint32_t num_nodes,
                     PrefixChanges* changes)
    : index_(index),
      group_(group),
      changes_(changes),
      pool_(group.num_blocks),
      block_of_node_(num_nodes, kNoBlock),
      node_of_block_(group.num_blocks, kNoBlock),
      prefix_of_block_(group.num_blocks, 0),
      places_(group.num_blocks) {}

void SideGroup::Attach(BlockId node, BlockId block, uint64_t prefix) {
  if (block_of_node_[node] != kNoBlock) return;
  LOCKSTEP_CHECK(node_of_block_[block] == kNoBlock && pool_.num_references(block) > 0,
                 "block {} is not in use, or belongs to a node", block);
  block_of_node_[node] = block;
  node_of_block_[block] = node;
  prefix_of_block_[block] = PrefixInGroup(prefix, index_);
  if (changes_ != nullptr) changes_->Learn(prefix_of_block_[block]);
}

void SideGroup::Separate(BlockId node, BlockId block) {
  block_of_node_[node] = kNoBlock;
  node_of_block_[block] = kNoBlock;
  if (changes_ != nullptr) changes_->Forget(prefix_of_block_[block]);
}

void SideGroup::Detach(BlockId node) {
  const BlockId block = block_of_node_[node];
  if (block == kNoBlock) return;
  Separate(node, block);
  if (!IsCached(block)) return;
  Uncache(block);
  pool_.PutFree(block);
}

void SideGroup::DetachAll() {
  for (BlockId node = 0; node < block_of_node_.size(); ++node) Detach(node);
}

void SideGroup::Uncache(BlockId block) {
  Place& place = places_[block];
  cached_[place.list].erase(place.at);
  place.list = kInNoList;
}

BlockId SideGroup::Take() {
  BlockId block = kNoBlock;
  if (pool_.num_free() > 0) {
    block = pool_.TakeFree();
  } else {
    LOCKSTEP_CHECK(num_cached() > 0, "no block is available among {}", pool_.num_blocks());
    block = cached_[0].empty() ? cached_[1].front() : cached_[0].front();
    Uncache(block);
    Separate(node_of_block_[block], block);
  }
  pool_.Reference(block);
  return block;
}

void SideGroup::Reference(BlockId block) {
  if (IsCached(block)) Uncache(block);
  pool_.Reference(block);
}

void SideGroup::Unreference(BlockId block, bool fenced, Why why) {
  if (!pool_.Unreference(block, fenced)) return;
  if (node_of_block_[block] == kNoBlock) return pool_.PutFree(block);
  const uint32_t list = why == Why::kBehindWindow ? 0 : 1;
  places_[block] = {.list = list, .at = cached_[list].insert(cached_[list].end(), block)};
}

absl::Status SideGroup::CheckIntegrity(const std::vector<uint32_t>& references,
                                       const std::vector<uint32_t>& fenced) const {
  LOCKSTEP_RETURN_IF_ERROR(pool_.CheckIntegrity(references, fenced));
  uint32_t num_attached = 0;
  for (BlockId block = 0; block < pool_.num_blocks(); ++block) {
    const BlockId node = node_of_block_[block];
    if (node != kNoBlock && block_of_node_[node] != block) {
      return Internal("block {} belongs to node {}, which has another", block, node);
    }
    num_attached += node != kNoBlock;
    const Place& place = places_[block];
    if (IsCached(block) != (node != kNoBlock && references[block] == 0)) {
      return Internal("block {} is cached: {}, with {} references", block, IsCached(block),
                      references[block]);
    }
    if (IsCached(block) && *place.at != block) return Internal("block {} is lost", block);
  }
  for (const BlockId block : block_of_node_) num_attached -= block != kNoBlock;
  if (num_attached != 0) return Internal("nodes and blocks disagree");
  if (Counts().cached != num_cached()) {
    return Internal("{} blocks are cached, the pool says {}", num_cached(), Counts().cached);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
