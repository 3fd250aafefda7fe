#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// The slots of one worker lease. A slot that is given back may be taken again at once: the next
// plan names it as released, and the worker applies that before it starts anything.
class SlotPool {
 public:
  explicit SlotPool(uint32_t num_slots);

  uint32_t num_slots() const { return static_cast<uint32_t>(taken_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  bool IsTaken(SlotId slot) const { return taken_[slot]; }

  // One must be free.
  SlotId Take();
  void Release(SlotId slot);
  // The worker drops its slots by itself (resync): there is nothing left to tell it.
  void ForgetReleased() { released_.clear(); }
  bool has_released() const { return !released_.empty(); }
  // The slots released since the last call, in order of release.
  std::vector<SlotId> TakeReleased();

 private:
  std::vector<bool> taken_;
  std::vector<SlotId> free_;  // a stack
  std::vector<SlotId> released_;
};

}  // namespace lockstep::router
