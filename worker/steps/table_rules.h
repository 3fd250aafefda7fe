#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/slot.h"
#include "worker/steps/stamp_set.h"

namespace lockstep::worker {

// The rules of block tables, for each KV group of the model. A part of StepValidator: knows the
// length of each table of a slot after the checked parts of the step. Errors are INVALID_ARGUMENT.
// Owns scratch memory only, and allocates nothing for accepted tables.
class TableRules {
 public:
  explicit TableRules(const StepBounds& bounds);

  // Loads the tables of a slot before the step. The mirror must outlive the check of the step.
  void Load(SlotId slot, const Slot& mirror);
  // Loads the tables that a slot gets in this step. The message must have passed CheckStarted.
  void Load(SlotId slot, const v1::StartedSlot& started);

  // Requires a table for each group. Every block exists and none comes twice. There are blocks for
  // the computed tokens, as far as the next token reads them. No table is longer than the context.
  absl::Status CheckStarted(const v1::StartedSlot& started);

  // Call before the first CheckGrowth of a step.
  void BeginGrowth() { grown_.Clear(); }
  // Appends the blocks. The slot must be loaded and `group` must exist.
  absl::Status CheckGrowth(SlotId slot, uint32_t group, std::span<const BlockId> blocks);

  // Checks that a loaded slot has blocks for its first `end` tokens in every group.
  absl::Status CheckCovers(SlotId slot, uint64_t end) const;

 private:
  // The source of a slot's blocks: one of the two.
  struct Source {
    const Slot* mirror = nullptr;
    const v1::StartedSlot* started = nullptr;
  };

  // `first`: place of the first block in the table.
  absl::Status CheckTable(uint32_t group, uint32_t first, std::span<const BlockId> blocks,
                          uint32_t num_computed);
  absl::Status CheckNewBlock(uint32_t group, BlockId block);
  // Puts the blocks that the slot still reads into table_blocks_.
  void NoteTable(SlotId slot, uint32_t group);
  // Number of entries of the table, with entries behind a window.
  uint64_t& NumBlocks(SlotId slot, uint32_t group) { return num_blocks_[Index(slot, group)]; }
  size_t Index(SlotId slot, uint32_t group) const { return size_t{slot} * num_groups_ + group; }

  const StepBounds bounds_;
  const uint32_t num_groups_;
  std::vector<Source> sources_;       // [max_slots]
  std::vector<uint64_t> num_blocks_;  // [max_slots, num_groups]
  StampSet grown_;                    // [max_slots, num_groups] that grow in this step
  StampSet table_blocks_;             // blocks of the table being checked
};

}  // namespace lockstep::worker
