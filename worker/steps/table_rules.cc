#include "worker/steps/table_rules.h"

#include <algorithm>

#include "common/status.h"

namespace lockstep::worker {
namespace {

uint32_t LargestPool(const StepBounds& bounds) {
  uint32_t largest = 0;
  for (const KvGroupInfo& group : bounds.kv_groups) largest = std::max(largest, group.num_blocks);
  return largest;
}

std::span<const BlockId> Ids(const google::protobuf::RepeatedField<BlockId>& blocks) {
  return {blocks.data(), static_cast<size_t>(blocks.size())};
}

// Names the group only if there are several.
absl::Status InGroup(uint32_t group, const absl::Status& status) {
  return group == 0 ? status : Annotate(status, fmt::format("group {}", group));
}

}  // namespace

TableRules::TableRules(const StepBounds& bounds)
    : bounds_(bounds),
      num_groups_(bounds.num_groups()),
      sources_(bounds.max_slots),
      num_blocks_(size_t{bounds.max_slots} * num_groups_),
      grown_(num_blocks_.size()),
      table_blocks_(LargestPool(bounds)) {}

void TableRules::Load(SlotId slot, const Slot& mirror) {
  sources_[slot] = {.mirror = &mirror};
  for (uint32_t group = 0; group < num_groups_; ++group) {
    NumBlocks(slot, group) = mirror.blocks(group).size();
  }
}

void TableRules::Load(SlotId slot, const v1::StartedSlot& started) {
  sources_[slot] = {.started = &started};
  NumBlocks(slot, 0) = static_cast<uint64_t>(started.blocks_size());
  for (uint32_t group = 1; group < num_groups_; ++group) {
    const v1::GroupBlocks& further = started.group_blocks(static_cast<int>(group) - 1);
    NumBlocks(slot, group) =
        uint64_t{further.first()} + static_cast<uint64_t>(further.blocks_size());
  }
}

absl::Status TableRules::CheckNewBlock(uint32_t group, BlockId block) {
  const uint32_t num_blocks = bounds_.kv_groups[group].num_blocks;
  if (block >= num_blocks) return InvalidArgument("block {} is not below {}", block, num_blocks);
  if (!table_blocks_.Insert(block)) return InvalidArgument("block {} is twice in the table", block);
  return absl::OkStatus();
}

absl::Status TableRules::CheckTable(uint32_t group, uint32_t first, std::span<const BlockId> blocks,
                                    uint32_t num_computed) {
  const uint32_t first_read = bounds_.FirstReadBlock(group, num_computed);
  if (first > first_read) {
    return InvalidArgument("first: must be at most {}, the first block that token {} reads, got {}",
                           first_read, num_computed, first);
  }
  table_blocks_.Clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (absl::Status status = CheckNewBlock(group, blocks[i]); !status.ok()) {
      return Annotate(status, fmt::format("blocks[{}]", i));
    }
  }
  const uint64_t num_blocks = uint64_t{first} + blocks.size();
  if (num_blocks > bounds_.max_blocks_per_slot) {
    return InvalidArgument("blocks: {} are more than a context of {} tokens takes", num_blocks,
                           bounds_.max_context_tokens);
  }
  if (num_blocks * bounds_.block_size_tokens < num_computed) {
    return InvalidArgument("blocks: {} of {} tokens cannot hold {} computed tokens", num_blocks,
                           bounds_.block_size_tokens, num_computed);
  }
  return absl::OkStatus();
}

absl::Status TableRules::CheckStarted(const v1::StartedSlot& started) {
  const uint32_t num_computed = started.num_computed_tokens();
  LOCKSTEP_RETURN_IF_ERROR(CheckTable(0, 0, Ids(started.blocks()), num_computed));
  const auto num_further = static_cast<int>(num_groups_) - 1;
  if (started.group_blocks_size() != num_further) {
    return InvalidArgument(
        "group_blocks: expected {}, one for each KV group after the first, got {}", num_further,
        started.group_blocks_size());
  }
  for (int i = 0; i < num_further; ++i) {
    const v1::GroupBlocks& further = started.group_blocks(i);
    absl::Status status = CheckTable(static_cast<uint32_t>(i) + 1, further.first(),
                                     Ids(further.blocks()), num_computed);
    if (!status.ok()) return Annotate(status, fmt::format("group_blocks[{}]", i));
  }
  return absl::OkStatus();
}

absl::Status TableRules::CheckGrowth(SlotId slot, uint32_t group, std::span<const BlockId> blocks) {
  if (!grown_.Insert(Index(slot, group))) {
    return InGroup(group, InvalidArgument("slot {} is given twice", slot));
  }
  if (blocks.empty()) return InGroup(group, InvalidArgument("slot {} grows by no block", slot));
  uint64_t& num_blocks = NumBlocks(slot, group);
  if (num_blocks + blocks.size() > bounds_.max_blocks_per_slot) {
    return InGroup(group, InvalidArgument("{} blocks are more than a context of {} tokens takes",
                                          num_blocks + blocks.size(), bounds_.max_context_tokens));
  }
  NoteTable(slot, group);
  for (const BlockId block : blocks) {
    if (absl::Status status = CheckNewBlock(group, block); !status.ok()) {
      return InGroup(group, status);
    }
  }
  num_blocks += blocks.size();
  return absl::OkStatus();
}

void TableRules::NoteTable(SlotId slot, uint32_t group) {
  const Source& source = sources_[slot];
  size_t first = 0;
  std::span<const BlockId> blocks;
  uint32_t num_computed = 0;
  if (source.started == nullptr) {
    blocks = source.mirror->blocks(group);
    num_computed = source.mirror->num_computed();
  } else {
    num_computed = source.started->num_computed_tokens();
    if (group == 0) {
      blocks = Ids(source.started->blocks());
    } else {
      const v1::GroupBlocks& further = source.started->group_blocks(static_cast<int>(group) - 1);
      first = further.first();
      blocks = Ids(further.blocks());
    }
  }
  // A block that fell behind the window may be used again in another place.
  const size_t first_read = bounds_.FirstReadBlock(group, num_computed);
  const size_t num_behind = std::min(first_read > first ? first_read - first : 0, blocks.size());
  table_blocks_.Clear();
  for (const BlockId block : blocks.subspan(num_behind)) table_blocks_.Insert(block);
}

absl::Status TableRules::CheckCovers(SlotId slot, uint64_t end) const {
  for (uint32_t group = 0; group < num_groups_; ++group) {
    const uint64_t num_blocks = num_blocks_[Index(slot, group)];
    const uint64_t num_tokens = num_blocks * bounds_.block_size_tokens;
    if (num_tokens >= end) continue;
    return InGroup(group, InvalidArgument("slot {} reaches {} tokens, its {} blocks hold {}", slot,
                                          end, num_blocks, num_tokens));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
