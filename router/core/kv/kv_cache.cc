#include "router/core/kv/kv_cache.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/status.h"

namespace lockstep::router {

BlockCountByGroup KvProbe::Needed(uint32_t headroom_blocks) const {
  BlockCountByGroup needed;
  for (const Group& group : groups) {
    needed.push_back(uint64_t{group.num_new_blocks} + headroom_blocks +
                     group.num_cached_hit_blocks);
  }
  return needed;
}

KvCache::KvCache(const KvGroups& groups, PrefixChanges* changes)
    : block_size_tokens_(groups.front().block_size_tokens),
      pool_(groups.front().num_blocks),
      index_(groups.front().num_blocks, block_size_tokens_, changes) {}

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
  const auto num_idle = std::ranges::count_if(
      probe.hit.blocks, [this](BlockId block) { return index_.IsIdle(block); });
  probe.groups.push_back(
      {.num_new_blocks = BlocksFor(tokens.size()) - static_cast<uint32_t>(probe.hit.blocks.size()),
       .num_cached_hit_blocks = static_cast<uint32_t>(num_idle)});
  return probe;
}

bool KvCache::Has(const BlockCountByGroup& wanted, uint64_t times) const {
  return wanted.empty() || wanted.front() * times <= num_available();
}

bool KvCache::WillHave(const BlockCountByGroup& wanted) const {
  return wanted.empty() || wanted.front() <= uint64_t{num_available()} + Counts().fenced;
}

BlockTable KvCache::Take(const KvProbe& probe) {
  BlockTable table;
  table.cache_ = this;
  table.groups_.resize(num_groups());
  const auto num_hit_blocks = static_cast<uint32_t>(probe.hit.blocks.size());
  const uint32_t num_blocks = num_hit_blocks + probe.groups.front().num_new_blocks;
  std::vector<BlockId>& ids = table.groups_.front().ids;
  ids.reserve(num_blocks);
  // The blocks of the hit come first. Once referenced, they cannot be evicted for the new blocks.
  for (BlockId block : probe.hit.blocks) {
    Reference(block);
    ids.push_back(block);
  }
  table.has_untold_ = true;
  GrowTo(table, num_blocks);
  return table;
}

void KvCache::AddMissing(const BlockTable& table, uint32_t num_blocks,
                         BlockCountByGroup& missing) const {
  const uint32_t size = table.size();
  if (num_blocks > size) missing.front() += num_blocks - size;
}

void KvCache::GrowTo(BlockTable& table, uint32_t num_blocks) {
  LOCKSTEP_CHECK(table.cache_ == this && !table.fenced_, "a foreign or fenced table cannot grow");
  std::vector<BlockId>& ids = table.groups_.front().ids;
  LOCKSTEP_CHECK(num_blocks <= uint64_t{ids.size()} + num_available(),
                 "{} blocks asked for, {} available", num_blocks - ids.size(), num_available());
  while (ids.size() < num_blocks) {
    const BlockId block = TakeBlock();
    pool_.Reference(block);
    ids.push_back(block);
    table.has_untold_ = true;
  }
  table.num_covered_ = static_cast<uint32_t>(ids.size());
}

void KvCache::Fence(BlockTable& table) {
  if (table.fenced_) return;
  for (BlockId block : table.ids()) pool_.Fence(block);
  table.fenced_ = true;
}

void KvCache::Publish(const BlockTable& table, const PrefixRoot& root,
                      std::span<const TokenId> computed, PublishedPrefix& published,
                      PublishBelow below) {
  while ((size_t{published.num_blocks} + 1) * block_size_tokens_ <= computed.size()) {
    const auto tokens =
        computed.subspan(size_t{published.num_blocks} * block_size_tokens_, block_size_tokens_);
    const BlockId block = table.ids()[published.num_blocks];
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
  const std::vector<BlockId>& ids = table.ids();
  for (size_t i = ids.size(); i-- > 0;) {
    const BlockId block = ids[i];
    if (!pool_.Unreference(block, table.fenced_)) continue;
    if (index_.Contains(block)) {
      index_.MarkUnreferenced(block);
    } else {
      pool_.PutFree(block);
    }
  }
  table.groups_.clear();
  table.num_covered_ = 0;
}

absl::Status KvCache::CheckIntegrity(std::span<const BlockTable* const> tables) const {
  std::vector<uint32_t> references(num_blocks(), 0);
  std::vector<uint32_t> fenced(num_blocks(), 0);
  for (const BlockTable* table : tables) {
    for (BlockId block : table->ids()) {
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
