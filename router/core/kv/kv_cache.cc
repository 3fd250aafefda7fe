#include "router/core/kv/kv_cache.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "router/core/kv/common_prefix.h"

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
    : groups_(groups),
      num_groups_(static_cast<uint32_t>(groups.size())),
      block_size_tokens_(groups.front().block_size_tokens),
      pool_(groups.front().num_blocks),
      index_(groups.front().num_blocks, block_size_tokens_, changes) {
  side_groups_.reserve(groups.size() - 1);
  for (uint32_t i = 1; i < num_groups_; ++i) {
    side_groups_.emplace_back(i, groups[i], num_blocks(), changes);
  }
}

KvCache::~KvCache() {
  for (uint32_t group = 0; group < num_groups(); ++group) {
    const BlockCounts counts = Counts(group);
    LOCKSTEP_CHECK(counts.used == 0 && counts.fenced == 0,
                   "{} blocks of group {} are used and {} fenced when their cache dies",
                   counts.used, group, counts.fenced);
  }
  for (SideGroup& group : side_groups_) group.DetachAll();
}

bool KvCache::Has(const BlockCountByGroup& wanted, uint64_t times) const {
  for (uint32_t group = 0; group < wanted.size(); ++group) {
    if (wanted[group] * times > num_available(group)) return false;
  }
  return true;
}

bool KvCache::WillHave(const BlockCountByGroup& wanted) const {
  for (uint32_t group = 0; group < wanted.size(); ++group) {
    if (wanted[group] > uint64_t{num_available(group)} + Counts(group).fenced) return false;
  }
  return true;
}

bool KvCache::CanHold(uint32_t num_blocks) const {
  return num_blocks <= pool_.num_blocks() &&
         std::ranges::all_of(side_groups_, [num_blocks](const SideGroup& group) {
           return group.description().has_window() || num_blocks <= group.description().num_blocks;
         });
}

uint32_t KvCache::MostCovered(const BlockTable& table) const {
  uint32_t most = std::numeric_limits<uint32_t>::max();
  for (uint32_t group = 0; group < num_groups(); ++group) {
    most = std::min(most, table.size(group) + num_available(group));
  }
  return most;
}

KvProbe KvCache::Probe(const PrefixRoot& root, std::span<const TokenId> tokens,
                       uint32_t max_hit_tokens) const {
  KvProbe probe;
  probe.hit = index_.Match(root, tokens, max_hit_tokens / block_size_tokens_);
  if (!side_groups_.empty()) Shorten(probe.hit);
  const std::vector<BlockId>& hit = probe.hit.blocks;
  const uint32_t num_blocks = BlocksFor(tokens.size());
  const auto num_hit_blocks = static_cast<uint32_t>(hit.size());
  const auto num_idle =
      std::ranges::count_if(hit, [this](BlockId block) { return index_.IsIdle(block); });
  probe.groups.push_back({.num_new_blocks = num_blocks - num_hit_blocks,
                          .num_cached_hit_blocks = static_cast<uint32_t>(num_idle)});
  for (const SideGroup& group : side_groups_) {
    KvProbe::Group& needed = probe.groups.emplace_back();
    needed.num_new_blocks = NumToStart(group.description(), num_hit_blocks, num_blocks);
    for (size_t i = group.description().NumBehind(num_hit_blocks); i < hit.size(); ++i) {
      needed.num_cached_hit_blocks += group.IsCached(group.BlockOf(hit[i]));
    }
  }
  return probe;
}

void KvCache::Shorten(PrefixMatch& hit) const {
  CommonPrefix common(groups_);
  for (const BlockId node : hit.blocks) {
    common.Add([&](uint32_t group) { return side_groups_[group - 1].BlockOf(node) != kNoBlock; });
  }
  const uint32_t num_usable = common.num_usable();
  if (num_usable == hit.blocks.size()) return;
  hit.blocks.resize(num_usable);
  hit.last = num_usable == 0 ? PrefixNode() : index_.NodeOf(hit.blocks.back());
}

// A group with a window never holds a whole text. So a sequence starts with the blocks of a window,
// and grows with each chunk of its prompt.
uint32_t KvCache::NumToStart(const KvGroup& group, uint32_t num_hit_blocks, uint32_t num_blocks) {
  const uint32_t num_new = num_blocks - num_hit_blocks;
  if (!group.has_window()) return num_new;
  const uint32_t num_of_hit = num_hit_blocks - group.NumBehind(num_hit_blocks);
  return std::min({num_new, group.NumWindowBlocks() + 1, group.num_blocks - num_of_hit});
}

BlockTable KvCache::Take(const KvProbe& probe) {
  const std::vector<BlockId>& hit = probe.hit.blocks;
  BlockTable table;
  table.cache_ = this;
  table.groups_.resize(num_groups());
  table.groups_.front().ids.reserve(hit.size() + probe.groups.front().num_new_blocks);
  // The blocks of the hit come first. Once referenced, they cannot be evicted for the new blocks.
  for (BlockId block : hit) {
    Reference(block);
    table.groups_.front().ids.push_back(block);
  }
  for (uint32_t group = 1; group < num_groups(); ++group) {
    SideGroup& side = side_groups_[group - 1];
    BlockTable::Group& to = table.groups_[group];
    to.num_behind = side.description().NumBehind(static_cast<uint32_t>(hit.size()));
    to.num_told = to.num_behind;
    to.ids.assign(to.num_behind, kNoBlock);
    for (size_t i = to.num_behind; i < hit.size(); ++i) {
      to.ids.push_back(side.BlockOf(hit[i]));
      side.Reference(to.ids.back());
    }
  }
  for (uint32_t group = 0; group < num_groups(); ++group) {
    Append(table, group, probe.groups[group].num_new_blocks);
  }
  table.has_untold_ = true;
  table.CountCovered();
  return table;
}

void KvCache::AddMissing(const BlockTable& table, uint32_t num_blocks,
                         BlockCountByGroup& missing) const {
  for (uint32_t group = 0; group < num_groups(); ++group) {
    const uint32_t size = table.size(group);
    if (num_blocks > size) missing[group] += num_blocks - size;
  }
}

void KvCache::Append(BlockTable& table, uint32_t group, uint32_t num_new_blocks) {
  std::vector<BlockId>& ids = table.groups_[group].ids;
  for (uint32_t i = 0; i < num_new_blocks; ++i) {
    if (group > 0) {
      ids.push_back(side_groups_[group - 1].Take());
      continue;
    }
    const BlockId block = TakeBlock();
    pool_.Reference(block);
    ids.push_back(block);
  }
  table.has_untold_ = table.has_untold_ || num_new_blocks > 0;
}

void KvCache::GrowTo(BlockTable& table, uint32_t num_blocks) {
  LOCKSTEP_CHECK(table.cache_ == this && !table.fenced_, "a foreign or fenced table cannot grow");
  BlockCountByGroup missing(num_groups(), 0);
  AddMissing(table, num_blocks, missing);
  for (uint32_t group = 0; group < num_groups(); ++group) {
    LOCKSTEP_CHECK(missing[group] <= num_available(group),
                   "{} blocks asked for in group {}, {} available", missing[group], group,
                   num_available(group));
  }
  for (uint32_t group = 0; group < num_groups(); ++group) {
    Append(table, group, static_cast<uint32_t>(missing[group]));
  }
  table.CountCovered();
}

void KvCache::DropBehindWindows(BlockTable& table, uint32_t num_computed) {
  for (uint32_t group = 1; group < num_groups(); ++group) {
    SideGroup& side = side_groups_[group - 1];
    BlockTable::Group& from = table.groups_[group];
    const uint32_t num_behind = side.description().NumBehind(num_computed / block_size_tokens_);
    for (; from.num_behind < num_behind; ++from.num_behind) {
      BlockId& block = from.ids[from.num_behind];
      side.Unreference(block, /*fenced=*/false, SideGroup::Why::kBehindWindow);
      block = kNoBlock;
    }
  }
}

void KvCache::Fence(BlockTable& table) {
  if (table.fenced_) return;
  for (BlockId block : table.ids()) pool_.Fence(block);
  for (uint32_t group = 1; group < num_groups(); ++group) {
    for (BlockId block : table.held(group)) side_groups_[group - 1].Fence(block);
  }
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
      AttachSides(table, published.num_blocks, node->block);
      published = {published.num_blocks + 1, *node};
    } else {
      // The sequence used equal blocks of another sequence, and those were evicted. Publish all
      // again.
      published = {};
    }
  }
}

void KvCache::AttachSides(const BlockTable& table, uint32_t place, BlockId node) {
  for (uint32_t group = 1; group < num_groups(); ++group) {
    const BlockId block = table.ids(group)[place];
    if (block != kNoBlock) side_groups_[group - 1].Attach(node, block, index_.PrefixOf(node));
  }
}

BlockId KvCache::TakeBlock() {
  if (pool_.num_free() > 0) return pool_.TakeFree();
  const BlockId block = index_.EvictOldest();
  for (SideGroup& group : side_groups_) group.Detach(block);
  return block;
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
  for (uint32_t group = 1; group < num_groups(); ++group) {
    for (BlockId block : table.held(group)) {
      side_groups_[group - 1].Unreference(block, table.fenced_, SideGroup::Why::kEnded);
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
  for (uint32_t group = 1; group < num_groups(); ++group) {
    LOCKSTEP_RETURN_IF_ERROR(Annotate(CheckGroup(tables, group), fmt::format("group {}", group)));
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

absl::Status KvCache::CheckGroup(std::span<const BlockTable* const> tables, uint32_t group) const {
  const SideGroup& side = side_groups_[group - 1];
  std::vector<uint32_t> references(side.description().num_blocks, 0);
  std::vector<uint32_t> fenced(references.size(), 0);
  for (const BlockTable* table : tables) {
    const std::vector<BlockId>& ids = table->ids(group);
    for (size_t i = 0; i < ids.size(); ++i) {
      if ((ids[i] == kNoBlock) == (i < table->num_behind(group))) continue;
      return Internal("entry {} of a table is {}, but {} are behind the window", i, ids[i],
                      table->num_behind(group));
    }
    for (BlockId block : table->held(group)) {
      if (block >= references.size()) return Internal("a table holds block {}", block);
      ++references[block];
      if (table->fenced()) ++fenced[block];
    }
  }
  for (BlockId node = 0; node < num_blocks(); ++node) {
    if (side.BlockOf(node) != kNoBlock && !index_.Contains(node)) {
      return Internal("node {} was evicted and has a block", node);
    }
  }
  return side.CheckIntegrity(references, fenced);
}

}  // namespace lockstep::router
