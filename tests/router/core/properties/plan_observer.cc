#include "tests/router/core/properties/plan_observer.h"

#include <utility>

#include "common/status.h"
#include "tests/router/core/reference_model.h"

namespace lockstep::router::testing {

PlanObserver::PlanObserver(const WorkerLimits& limits)
    : limits_(limits), acknowledged_(size_t{limits.num_blocks} * limits.block_size_tokens) {}

absl::Status PlanObserver::OnGiven(BlockId block, uint64_t stay) {
  for (const Mentions& step : in_flight_) {
    const auto mention = step.lower_bound({block, 0});
    if (mention != step.end() && mention->first == block && mention->second != stay) {
      return Internal("block {} is given out while a step in flight mentions it", block);
    }
  }
  for (uint32_t i = 0; i < limits_.block_size_tokens; ++i) {
    acknowledged_[size_t{block} * limits_.block_size_tokens + i] = {};
  }
  return absl::OkStatus();
}

absl::Status PlanObserver::CheckHit(const StartedSlot& started) const {
  const uint32_t size = limits_.block_size_tokens;
  if (started.num_computed_tokens % size != 0) {
    return Internal("slot {}: the hit ends inside a block", started.slot);
  }
  uint64_t hash = 0;
  for (uint32_t position = 0; position < started.num_computed_tokens; ++position) {
    hash = ExtendTextHash(hash, started.known_tokens[position]);
    const KvCell& cell =
        acknowledged_[size_t{started.blocks[position / size]} * size + position % size];
    if (cell != KvCell{hash, started.request->prefix_root.salt}) {
      return Internal("slot {}: the hit at position {} is not acknowledged KV of its text and salt",
                      started.slot, position);
    }
  }
  return absl::OkStatus();
}

absl::Status PlanObserver::OnPlan(const StepPlan& plan) {
  if (plan.resync) stays_.clear();
  for (SlotId slot : plan.released) stays_.erase(slot);
  for (const StartedSlot& started : plan.started) {
    LOCKSTEP_RETURN_IF_ERROR(CheckHit(started));
    Stay& stay = stays_[started.slot] = Stay{next_stay_++, started.blocks};
    const uint32_t num_hit_blocks = started.num_computed_tokens / limits_.block_size_tokens;
    for (size_t i = num_hit_blocks; i < stay.blocks.size(); ++i) {
      LOCKSTEP_RETURN_IF_ERROR(OnGiven(stay.blocks[i], stay.id));
    }
  }
  Mentions mentions;
  for (const RunRow& row : plan.rows) {
    Stay& stay = stays_[row.slot];
    for (BlockId block : row.new_blocks) {
      LOCKSTEP_RETURN_IF_ERROR(OnGiven(block, stay.id));
      stay.blocks.push_back(block);
    }
    for (BlockId block : stay.blocks) mentions.emplace(block, stay.id);
  }
  in_flight_.push_back(std::move(mentions));
  return absl::OkStatus();
}

void PlanObserver::OnAcknowledged(const std::vector<KvWrite>& writes) {
  in_flight_.pop_front();
  for (const KvWrite& write : writes) {
    acknowledged_[size_t{write.block} * limits_.block_size_tokens + write.offset] = write.cell;
  }
}

}  // namespace lockstep::router::testing
