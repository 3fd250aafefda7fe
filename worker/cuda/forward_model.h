#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device_buffer.h"
#include "worker/cuda/model.h"
#include "worker/cuda/stage_batch.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

// A CudaModel, with all its ranks, as a ForwardModel: waits for every pass and brings the logits of
// rank 0 to the host. For the start-up probe and for tests, not for serving. Row i of a batch uses
// slot i of the model, so a batch has at most as many rows as there are slots.
class CudaForwardModel final : public ForwardModel {
 public:
  // `model` is rank 0's and outlives the object.
  static absl::StatusOr<std::unique_ptr<CudaForwardModel>> Create(CudaModel& model);

  const ForwardModelInfo& info() const override { return model_.info(); }
  void Forward(const ForwardBatch& batch, std::span<float> logits) override;

 private:
  // Pinned arrays that the devices read.
  struct Staging {
    kernels::SlotUpdate* updates;  // [max_slots]
    BlockId* blocks;               // [max_slots * max_blocks]
    BatchStaging batch;
    uint32_t* logits_tokens;  // [max_logits_rows]
  };

  CudaForwardModel(CudaModel& model, kernels::PinnedBuffer memory, const Staging& staging)
      : model_(model), memory_(std::move(memory)), staging_(staging) {}

  // Block table and state of every row's slot.
  void StageSlots(const ForwardBatch& batch);
  CudaBatch StageRows(const ForwardBatch& batch);
  // On the rank's thread.
  absl::Status EnqueueRank(CudaModel& rank, const CudaBatch& staged, int64_t num_slots) const;
  absl::Status Finish(std::span<float> logits);

  CudaModel& model_;
  const kernels::PinnedBuffer memory_;
  const Staging staging_;
  std::vector<StagedRow> rows_;
  std::vector<uint32_t> token_places_;
};

}  // namespace lockstep::worker
