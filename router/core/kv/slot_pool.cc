#include "router/core/kv/slot_pool.h"

#include <utility>

#include "common/check.h"

namespace lockstep::router {

SlotPool::SlotPool(uint32_t num_slots) : taken_(num_slots, false) {
  free_.reserve(num_slots);
  for (SlotId slot = num_slots; slot-- > 0;) free_.push_back(slot);
}

SlotId SlotPool::Take() {
  LOCKSTEP_CHECK(!free_.empty(), "all {} slots are taken", num_slots());
  const SlotId slot = free_.back();
  free_.pop_back();
  taken_[slot] = true;
  return slot;
}

void SlotPool::Release(SlotId slot) {
  LOCKSTEP_CHECK(taken_[slot], "slot {} is not taken", slot);
  taken_[slot] = false;
  free_.push_back(slot);
  released_.push_back(slot);
}

std::vector<SlotId> SlotPool::TakeReleased() { return std::exchange(released_, {}); }

}  // namespace lockstep::router
