#include "worker/steps/slot_table.h"

#include <algorithm>
#include <span>

namespace lockstep::worker {

uint32_t SlotTable::CountLive() const {
  return static_cast<uint32_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.occupied() && !slot.inert();
  }));
}

void SlotTable::Clear() {
  for (Slot& slot : slots_) slot.Release();
  last_rows_.clear();
  last_draft_limits_.clear();
}

void SlotTable::Apply(const v1::StepRequest& step) {
  for (const SlotId slot : step.released_slots()) slots_[slot].Release();
  for (const v1::StartedSlot& started : step.started()) slots_[started.slot()].Start(started);
  const BlockId* next_block = step.grown_blocks().data();
  for (int i = 0; i < step.grown_slots_size(); ++i) {
    const uint32_t count = step.grown_counts(i);
    const uint32_t group = step.grown_groups_size() == 0 ? 0 : step.grown_groups(i);
    slots_[step.grown_slots(i)].AppendBlocks(group, {next_block, count});
    next_block += count;
  }
  if (step.repeat_rows()) return;
  last_rows_.assign(step.run_slots().begin(), step.run_slots().end());
  last_draft_limits_.assign(step.draft_limits().begin(), step.draft_limits().end());
}

}  // namespace lockstep::worker
