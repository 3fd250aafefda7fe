#include "router/core/kv/kv_cache.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {

BlockTable::BlockTable(BlockTable&& other) noexcept { *this = std::move(other); }

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->Release(*this);
  cache_ = std::exchange(other.cache_, nullptr);
  ids_ = std::exchange(other.ids_, {});
  fenced_ = std::exchange(other.fenced_, false);
  return *this;
}

BlockTable::~BlockTable() {
  if (cache_ != nullptr) cache_->Release(*this);
}

KvCache::KvCache(uint32_t num_blocks, uint32_t block_size_tokens, PrefixChanges* changes)
    : block_size_tokens_(block_size_tokens),
      pool_(num_blocks),
      index_(num_blocks, block_size_tokens, changes) {}

KvCache::~KvCache() {
  const BlockCounts counts = pool_.Counts();
  LOCKSTEP_CHECK(counts.used == 0 && counts.fenced == 0,
                 "{} blocks are used and {} fenced when their cache dies", counts.used,
                 counts.fenced);
}

KvProbe KvCache::Probe(const PrefixRoot& root, std::span<const TokenId> tokens,
                       uint32_t max_hit_tokens) const {
  KvProbe probe;
  probe.hit = index_.Match(root, tokens, max_hit_tokens / block_size_tokens_);
  const auto num_hit_blocks = static_cast<uint32_t>(probe.hit.blocks.size());
  probe.num_new_blocks = BlocksFor(tokens.size()) - num_hit_blocks;
  const auto num_idle = std::ranges::count_if(
      probe.hit.blocks, [this](BlockId block) { return index_.IsIdle(block); });
  probe.num_available_blocks = num_available() - static_cast<uint32_t>(num_idle);
  return probe;
}

BlockTable KvCache::Take(const KvProbe& probe) {
  BlockTable table;
  table.cache_ = this;
  table.ids_.reserve(probe.hit.blocks.size() + probe.num_new_blocks);
  // The blocks of the hit come first. Once referenced, they cannot be evicted for the new blocks.
  for (BlockId block : probe.hit.blocks) {
    Reference(block);
    table.ids_.push_back(block);
  }
  Grow(table, probe.num_new_blocks);
  return table;
}

void KvCache::Grow(BlockTable& table, uint32_t num_new_blocks) {
  LOCKSTEP_CHECK(table.cache_ == this && !table.fenced_, "a foreign or fenced table cannot grow");
  LOCKSTEP_CHECK(num_new_blocks <= num_available(), "{} blocks asked for, {} available",
                 num_new_blocks, num_available());
  for (uint32_t i = 0; i < num_new_blocks; ++i) {
    const BlockId block = TakeBlock();
    pool_.Reference(block);
    table.ids_.push_back(block);
  }
}

void KvCache::Fence(BlockTable& table) {
  if (table.fenced_) return;
  for (BlockId block : table.ids_) pool_.Fence(block);
  table.fenced_ = true;
}

void KvCache::Publish(const BlockTable& table, const PrefixRoot& root,
                      std::span<const TokenId> computed, PublishedPrefix& published,
                      PublishBelow below) {
  while ((size_t{published.num_blocks} + 1) * block_size_tokens_ <= computed.size()) {
    const auto tokens =
        computed.subspan(size_t{published.num_blocks} * block_size_tokens_, block_size_tokens_);
    const BlockId block = table.ids_[published.num_blocks];
    const std::optional<PrefixNode> node = index_.Insert(root, published.last, tokens, block);
    if (node.has_value()) {
      if (below == PublishBelow::kOwnBlock && node->block != block) return;
      published = {published.num_blocks + 1, *node};
    } else {
      // The sequence used equal blocks of another sequence, and those were evicted. Publish all
      // again.
      published = {};
    }
  }
}

BlockId KvCache::TakeBlock() {
  return pool_.num_free() > 0 ? pool_.TakeFree() : index_.EvictOldest();
}

void KvCache::Reference(BlockId block) {
  const bool was_unreferenced = pool_.num_references(block) == 0;
  pool_.Reference(block);
  if (was_unreferenced) index_.MarkReferenced(block);
}

// Releases the last block first. So the leaves of a chain become idle before their parents, and are
// evicted before them.
void KvCache::Release(BlockTable& table) {
  for (size_t i = table.ids_.size(); i-- > 0;) {
    const BlockId block = table.ids_[i];
    if (!pool_.Unreference(block, table.fenced_)) continue;
    if (index_.Contains(block)) {
      index_.MarkUnreferenced(block);
    } else {
      pool_.PutFree(block);
    }
  }
  table.ids_.clear();
}

absl::Status KvCache::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  std::vector<uint32_t> references(num_blocks(), 0);
  std::vector<uint32_t> fenced(num_blocks(), 0);
  for (const BlockTable* table : tables) {
    for (BlockId block : table->ids_) {
      if (block >= num_blocks())
        return Internal("a table holds block {} of {}", block, num_blocks());
      ++references[block];
      if (table->fenced_) ++fenced[block];
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(pool_.CheckIntegrity(references, fenced));
  LOCKSTEP_RETURN_IF_ERROR(index_.CheckIntegrity(references));
  uint32_t num_cached = 0;
  for (BlockId block = 0; block < num_blocks(); ++block) {
    if (references[block] == 0 && index_.Contains(block)) ++num_cached;
  }
  const BlockCounts counts = pool_.Counts();
  if (counts.cached != num_cached) {
    return Internal("{} blocks are cached, the pool says {}", num_cached, counts.cached);
  }
  if (counts.free + counts.used + counts.cached + counts.fenced != num_blocks()) {
    return Internal("the counts of blocks do not add up to {}", num_blocks());
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
