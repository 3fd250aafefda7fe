#include "tests/router/core/properties/plan_observer.h"

#include <iterator>
#include <utility>

#include "common/status.h"
#include "tests/router/core/reference_model.h"

namespace lockstep::router::testing {

PlanObserver::PlanObserver(const WorkerLimits& limits) : limits_(limits) {
  for (const KvGroup& group : limits.kv_groups) {
    acknowledged_.emplace_back(size_t{group.num_blocks} * group.block_size_tokens);
  }
}

absl::Status PlanObserver::OnGiven(uint32_t group, BlockId block, uint64_t stay) {
  for (const Mentions& step : in_flight_) {
    const auto is_other = [&](const auto& mention) {
      return std::get<0>(mention) == group && std::get<1>(mention) == block &&
             std::get<2>(mention) != stay;
    };
    const auto first = step.lower_bound({group, block, 0});
    if (first != step.end() &&
        (is_other(*first) || (std::next(first) != step.end() && is_other(*std::next(first))))) {
      return Internal("group {}: block {} is given out while a step in flight mentions it", group,
                      block);
    }
  }
  for (uint32_t i = 0; i < limits_.block_size_tokens(); ++i) Acknowledged(group, block, i) = {};
  return absl::OkStatus();
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
  Stay& stay = stays_[started.slot] =
      Stay{.id = next_stay_++, .tables = {}, .num_computed = started.num_computed_tokens};
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

absl::Status PlanObserver::OnRow(const RunRow& row, uint32_t num_iterations, Mentions& mentions) {
  Stay& stay = stays_[row.slot];
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
      if (table[i] == kNoBlock) {
        return Internal("slot {}, group {}: reads the missing block {}", row.slot, group, i);
      }
      mentions.emplace(group, table[i], stay.id);
    }
  }
  stay.num_computed += row.num_tokens + num_iterations - 1;
  return absl::OkStatus();
}

absl::Status PlanObserver::OnPlan(const StepPlan& plan) {
  if (plan.resync) stays_.clear();
  for (SlotId slot : plan.released) stays_.erase(slot);
  for (const StartedSlot& started : plan.started) LOCKSTEP_RETURN_IF_ERROR(OnStarted(started));
  Mentions mentions;
  for (const RunRow& row : plan.rows) {
    LOCKSTEP_RETURN_IF_ERROR(OnRow(row, plan.decode_iterations, mentions));
  }
  in_flight_.push_back(std::move(mentions));
  return absl::OkStatus();
}

void PlanObserver::OnAcknowledged(const std::vector<KvWrite>& writes) {
  in_flight_.pop_front();
  for (const KvWrite& write : writes)
    Acknowledged(write.group, write.block, write.offset) = write.cell;
}

}  // namespace lockstep::router::testing
