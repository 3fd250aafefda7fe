#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// The slots of one worker lease. A released slot may be taken again at once: the next plan lists it
// as released, and the worker releases slots before it starts anything.
class SlotPool {
 public:
  explicit SlotPool(uint32_t num_slots);

  uint32_t num_slots() const { return static_cast<uint32_t>(taken_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  bool IsTaken(SlotId slot) const { return taken_[slot]; }

  // At least one slot must be free.
  SlotId Take();
  void Release(SlotId slot);
  // The worker drops all its slots on its own (resync), so there is nothing left to tell it.
  void ForgetReleased() { released_.clear(); }
  bool has_released() const { return !released_.empty(); }
  // Returns the slots released since the last call, in order of release.
  std::vector<SlotId> TakeReleased();

 private:
  std::vector<bool> taken_;
  std::vector<SlotId> free_;  // a stack
  std::vector<SlotId> released_;
};

}  // namespace lockstep::router
