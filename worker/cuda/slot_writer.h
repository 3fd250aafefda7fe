#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/cuda/model.h"
#include "worker/cuda/step_memory.h"
#include "worker/steps/slot_table.h"
#include "worker/steps/stamp_set.h"

namespace lockstep::worker {

// Writes what a step changes in its slots (released, started, grown) to the device, before the
// step's passes. Reads the mirror after the step was applied to it.
class CudaSlotWriter {
 public:
  CudaSlotWriter(CudaModel& model, const CudaStepMemory& memory);

  // UNIMPLEMENTED naming the first started slot whose sampling lists have no room.
  static absl::Status Check(const v1::StepRequest& step);

  // Enqueues the changes through `staging`. The pinned memory of started slots is rewritten: no
  // pass under way may read it.
  absl::Status Enqueue(const v1::StepRequest& step, const SlotTable& table, PassStaging& staging);
  // Every slot becomes inactive.
  absl::Status EnqueueClear();

 private:
  absl::Status WriteStarted(const Slot& slot, SlotId slot_id);
  absl::Status CopyParams(SlotId slot, uint32_t num_list_ids);
  // Stages the slot's blocks from `first_block` on, behind the blocks that are staged already.
  kernels::SlotUpdate UpdateOf(const Slot& slot, SlotId slot_id, uint32_t first_block,
                               BlockId* blocks);

  CudaModel& model_;
  const CudaStepMemory& memory_;
  StampSet touched_;
  uint32_t num_staged_blocks_ = 0;
};

}  // namespace lockstep::worker
