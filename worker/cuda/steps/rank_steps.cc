#include "worker/cuda/steps/rank_steps.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/slots/host_copies.h"
#include "worker/cuda/steps/round.h"

namespace lockstep::worker {

absl::StatusOr<std::unique_ptr<CudaRankSteps>> CudaRankSteps::Create(CudaModel& model,
                                                                     int64_t max_graph_rows,
                                                                     const CudaDrafts& drafts,
                                                                     const CudaRankSteps* first) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<CudaStepMemory> memory,
      CudaStepMemory::Create(model, drafts, first == nullptr ? nullptr : &first->memory()));
  std::unique_ptr<CudaRankSteps> steps(new CudaRankSteps(model, max_graph_rows, std::move(memory)));
  LOCKSTEP_RETURN_IF_ERROR(steps->EnqueueClear());
  return steps;
}

absl::Status CudaRankSteps::CaptureGraphs(int64_t max_keys) {
  LOCKSTEP_RETURN_IF_ERROR(graphs_.Prepare(max_keys));
  // A kernel is loaded when it first runs. Run the kernels that no graph above contains now, so
  // that no request waits for their loading.
  const int64_t vocab_size = model_.plan().vocab_size;
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::DescribeRows(model_.stream(), {.logits = model_.logits(),
                                              .row_stride = vocab_size,
                                              .num_rows = 1,
                                              .vocab_size = vocab_size,
                                              .tokens = memory_->tokens,
                                              .num_best = memory_->num_best,
                                              .descriptions = memory_->descriptions}));
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::CountTokens(model_.stream(), {.updates = memory_->staging[0].count_updates,
                                             .tokens = memory_->tokens,
                                             .num_updates = 1,
                                             .vocab_size = vocab_size,
                                             .token_counts = memory_->token_counts}));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(model_.stream().handle));
  return absl::OkStatus();
}

absl::Status CudaRankSteps::EnqueueClear() {
  const kernels::SlotState& slots = model_.slots();
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(slots.active, 0, static_cast<size_t>(slots.num_slots) * sizeof(uint32_t),
                      model_.stream().handle));
  return absl::OkStatus();
}

absl::Status CudaRankSteps::EnqueueSlotChanges(const PassStaging& staging,
                                               const SlotChanges& changes) {
  return worker::EnqueueSlotChanges(model_, *memory_, staging, changes);
}

absl::Status CudaRankSteps::EnqueueRows(const PassStaging& staging, int64_t num_rows) {
  const size_t num_bytes = static_cast<size_t>(num_rows) * sizeof(uint32_t);
  kernels::HostCopies copies;
  copies.Add(memory_->row_slots, staging.batch.decode_slots, num_bytes);
  if (memory_->draft_numbers != nullptr) {
    copies.Add(memory_->draft_numbers, staging.draft_numbers, num_bytes);
  }
  return copies.Enqueue(model_.stream());
}

absl::Status CudaRankSteps::EnqueueScript(SlotId slot, std::span<const TokenId> script) {
  LOCKSTEP_CHECK(static_cast<int64_t>(script.size()) <= memory_->max_context_tokens(),
                 "a script of {} tokens", script.size());
  // The memory is not pinned, so CUDA has copied it when the call returns.
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
      memory_->draft_script + int64_t{slot} * memory_->max_context_tokens(), script.data(),
      script.size_bytes(), cudaMemcpyHostToDevice, model_.stream().handle));
  return absl::OkStatus();
}

absl::Status CudaRankSteps::EnqueuePass(const CudaBatch& batch, const PassStaging& staging,
                                        const PassSampling& sampling) {
  return EnqueueRound(model_, *memory_, batch,
                      {.slots = staging.sample_slots,
                       .num_rows = sampling.num_samples,
                       .describes = sampling.describes},
                      {.tokens = staging.prompt_tokens,
                       .num_best = staging.prompt_num_best,
                       .descriptions = staging.prompt_descriptions,
                       .num_rows = sampling.num_prompts});
}

bool CudaRankSteps::IsReported(uint64_t serial) const {
  uint64_t& reported = memory_->ring.reported[serial % CudaStepMemory::kNumPasses];
  return std::atomic_ref<uint64_t>(reported).load(std::memory_order_acquire) > serial;
}

int CudaRankSteps::QueryDevice() const { return cudaStreamQuery(model_.stream().handle); }

}  // namespace lockstep::worker
