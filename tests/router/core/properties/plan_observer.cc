#include "tests/router/core/properties/plan_observer.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "tests/router/core/model/reference_model.h"

namespace lockstep::router::testing {

PlanObserver::PlanObserver(const WorkerLimits& limits) : limits_(limits) {
  for (const KvGroup& group : limits.kv_groups) {
    acknowledged_.emplace_back(size_t{group.num_blocks} * group.block_size_tokens);
  }
}

absl::Status PlanObserver::OnGiven(uint32_t group, BlockId block, uint64_t stay) {
  if (block >= limits_.kv_groups[group].num_blocks) {
    return Internal("group {}: block {} is given out, and its pool does not have it", group, block);
  }
  for (const Rows& step : in_flight_) {
    for (const std::shared_ptr<Stay>& other : step) {
      if (other->id == stay || !Mentions(*other, group, block)) continue;
      return Internal("group {}: block {} is given out while a step in flight mentions it", group,
                      block);
    }
  }
  for (uint32_t i = 0; i < limits_.block_size_tokens(); ++i) Acknowledged(group, block, i) = {};
  return absl::OkStatus();
}

// Every row in flight begins where results are acknowledged, or later.
bool PlanObserver::Mentions(const Stay& stay, uint32_t group, BlockId block) const {
  const std::vector<BlockId>& table = stay.tables[group];
  const size_t first =
      FirstRead(limits_.kv_groups[group], stay.num_computed) / limits_.block_size_tokens();
  return first < table.size() && std::find(table.begin() + static_cast<ptrdiff_t>(first),
                                           table.end(), block) != table.end();
}

absl::Status PlanObserver::CheckHit(const StartedSlot& started) const {
  if (started.num_computed_tokens % limits_.block_size_tokens() != 0) {
    return Internal("slot {}: the hit ends inside a block", started.slot);
  }
  for (const GroupBlocks& blocks : started.blocks) {
    LOCKSTEP_RETURN_IF_ERROR(CheckHit(started, blocks));
  }
  return absl::OkStatus();
}

absl::Status PlanObserver::CheckHit(const StartedSlot& started, const GroupBlocks& blocks) const {
  const uint32_t size = limits_.block_size_tokens();
  const uint32_t first = FirstRead(limits_.kv_groups[blocks.group], started.num_computed_tokens);
  uint64_t hash = 0;
  for (uint32_t position = 0; position < started.num_computed_tokens; ++position) {
    hash = ExtendTextHash(hash, started.known_tokens[position]);
    if (position < first) continue;
    const BlockId block = blocks.ids[position / size - blocks.first];
    const KvCell& cell = acknowledged_[blocks.group][size_t{block} * size + position % size];
    if (cell != KvCell{hash, started.request->prefix_root.salt}) {
      return Internal(
          "slot {}, group {}: the hit at position {} is not acknowledged KV of its text and salt",
          started.slot, blocks.group, position);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanObserver::OnStarted(const StartedSlot& started) {
  LOCKSTEP_RETURN_IF_ERROR(CheckHit(started));
  std::shared_ptr<Stay>& entry = stays_[started.slot];
  entry = std::make_shared<Stay>(Stay{.id = next_stay_++,
                                      .tables = {},
                                      .num_computed = started.num_computed_tokens,
                                      .max_rows_in_flight = started.request->max_rows_in_flight});
  Stay& stay = *entry;
  const uint32_t num_hit_blocks = started.num_computed_tokens / limits_.block_size_tokens();
  for (const GroupBlocks& blocks : started.blocks) {
    std::vector<BlockId>& table = stay.tables.emplace_back(blocks.first, kNoBlock);
    table.insert(table.end(), blocks.ids.begin(), blocks.ids.end());
    for (size_t i = num_hit_blocks; i < table.size(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(OnGiven(blocks.group, table[i], stay.id));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanObserver::OnRow(const RunRow& row, Rows& rows) {
  const std::shared_ptr<Stay>& entry = stays_[row.slot];
  Stay& stay = *entry;
  size_t num_rows_in_flight = 0;
  for (const Rows& step : in_flight_) num_rows_in_flight += std::ranges::count(step, entry);
  if (num_rows_in_flight >= stay.max_rows_in_flight) {
    return Internal("slot {}: {} rows are in flight, one more is planned", row.slot,
                    num_rows_in_flight);
  }
  for (const GroupBlocks& grown : row.new_blocks) {
    for (BlockId block : grown.ids) {
      LOCKSTEP_RETURN_IF_ERROR(OnGiven(grown.group, block, stay.id));
      stay.tables[grown.group].push_back(block);
    }
  }
  for (uint32_t group = 0; group < stay.tables.size(); ++group) {
    const std::vector<BlockId>& table = stay.tables[group];
    const uint32_t first = FirstRead(limits_.kv_groups[group], stay.num_computed);
    for (size_t i = first / limits_.block_size_tokens(); i < table.size(); ++i) {
      if (table[i] != kNoBlock) continue;
      return Internal("slot {}, group {}: reads the missing block {}", row.slot, group, i);
    }
  }
  rows.push_back(entry);
  return absl::OkStatus();
}

absl::Status PlanObserver::OnPlan(const StepPlan& plan) {
  if (plan.resync) stays_.clear();
  for (SlotId slot : plan.released) stays_.erase(slot);
  for (const StartedSlot& started : plan.started) LOCKSTEP_RETURN_IF_ERROR(OnStarted(started));
  Rows rows;
  for (const RunRow& row : plan.rows) LOCKSTEP_RETURN_IF_ERROR(OnRow(row, rows));
  in_flight_.push_back(std::move(rows));
  return absl::OkStatus();
}

void PlanObserver::OnAcknowledged(const ModelWorker::Executed& executed) {
  const Rows& rows = in_flight_.front();
  for (size_t i = 0; i < rows.size(); ++i) rows[i]->num_computed = executed.num_computed[i];
  in_flight_.pop_front();
  for (const KvWrite& write : executed.writes)
    Acknowledged(write.group, write.block, write.offset) = write.cell;
}

}  // namespace lockstep::router::testing
