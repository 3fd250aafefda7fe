#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_memory.h"
#include "worker/steps/slot_table.h"
#include "worker/steps/stamp_set.h"

namespace lockstep::worker {

// What a step changes in its slots, in pinned memory.
struct SlotChanges {
  struct Started {
    SlotId slot = 0;
    uint32_t num_list_ids = 0;  // of its sampling parameters
    uint32_t num_known = 0;
  };
  std::vector<Started> started;
  int64_t num_updates = 0;
  int64_t num_count_updates = 0;

  bool empty() const { return num_updates == 0; }
};

// Stages what a step changes in its slots (released, started, grown), for all ranks. Reads the
// mirror after the step was applied to it.
class CudaSlotWriter {
 public:
  CudaSlotWriter(uint32_t num_slots, const CudaStepMemory& memory)
      : memory_(memory), touched_(num_slots) {}

  // UNIMPLEMENTED: the first started slot whose sampling lists have no room.
  static absl::Status Check(const v1::StepRequest& step);

  // Fills `staging` and the pinned memory of started slots: no pass under way may read them. The
  // result is valid until the next call.
  const SlotChanges& Stage(const v1::StepRequest& step, const SlotTable& table,
                           const PassStaging& staging);

 private:
  // Returns the number of ids in the slot's lists.
  uint32_t StageParams(const Slot& slot, SlotId slot_id);
  // Stages the slot's blocks from `first_block` on, behind the blocks that are staged already.
  kernels::SlotUpdate UpdateOf(const Slot& slot, SlotId slot_id, uint32_t first_block,
                               BlockId* blocks);

  const CudaStepMemory& memory_;
  StampSet touched_;
  SlotChanges changes_;
  uint32_t num_staged_blocks_ = 0;
};

// Enqueues staged changes for one rank, before the passes of their step. `memory` is the rank's.
absl::Status EnqueueSlotChanges(const CudaModel& model, const CudaStepMemory& memory,
                                const PassStaging& staging, const SlotChanges& changes);

}  // namespace lockstep::worker
