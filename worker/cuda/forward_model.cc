#include "worker/cuda/forward_model.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/check.h"
#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "worker/memory/arena.h"

namespace lockstep::worker {

absl::StatusOr<std::unique_ptr<CudaForwardModel>> CudaForwardModel::Create(CudaModel& model) {
  const kernels::SlotState& slots = model.slots();
  Arena arena;
  const auto lay_out = [&] {
    return Staging{.updates = arena.Take<kernels::SlotUpdate>(slots.num_slots),
                   .blocks = arena.Take<BlockId>(slots.num_slots * slots.max_blocks),
                   .batch = {.decode_slots = arena.Take<uint32_t>(slots.num_slots),
                             .chunks = arena.Take<kernels::AttentionChunk>(slots.num_slots),
                             .tiles = {arena.Take<kernels::PrefillTile>(model.max_prefill_tiles()),
                                       static_cast<size_t>(model.max_prefill_tiles())},
                             .chunk_token_ids = arena.Take<TokenId>(model.info().max_step_tokens)},
                   .logits_tokens = arena.Take<uint32_t>(model.info().max_logits_rows)};
  };
  lay_out();
  LOCKSTEP_ASSIGN_OR_RETURN(
      kernels::PinnedBuffer memory,
      kernels::PinnedBuffer::Create(arena.used_bytes(),
                                    "staging of the self-check in pinned host memory (a smaller "
                                    "--max-slots needs less)"));
  arena.CommitTo(memory.data());
  const Staging staging = lay_out();
  return std::unique_ptr<CudaForwardModel>(new CudaForwardModel(model, std::move(memory), staging));
}

void CudaForwardModel::Forward(const ForwardBatch& batch, std::span<float> logits) {
  CheckBatchFits(batch, logits, info());
  LOCKSTEP_CHECK(batch.rows.size() <= static_cast<size_t>(model_.slots().num_slots),
                 "{} rows for {} slots", batch.rows.size(), model_.slots().num_slots);
  if (batch.token_ids.empty()) return;
  StageSlots(batch);
  const CudaBatch staged = StageRows(batch);
  const auto num_slots = static_cast<int64_t>(batch.rows.size());
  // Ranks may share a device, so none may wait for it before all have launched.
  model_.OnRanks(
      [&](int rank) { model_.ExpectOk(EnqueueRank(model_.rank(rank), staged, num_slots)); });
  model_.ExpectOk(Finish(logits));
}

void CudaForwardModel::StageSlots(const ForwardBatch& batch) {
  uint32_t num_blocks = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const ForwardRow& row = batch.rows[i];
    const std::vector<BlockId>& blocks = row.block_tables.front();
    std::copy(blocks.begin(), blocks.end(), staging_.blocks + num_blocks);
    staging_.updates[i] = {.slot = static_cast<uint32_t>(i),
                           .sets_state = 1,
                           .last_token = batch.token_ids[row.first_token],
                           .position = row.first_position,
                           .active = 1,
                           .first_block = 0,
                           .num_blocks = static_cast<uint32_t>(blocks.size()),
                           .block_offset = num_blocks};
    num_blocks += static_cast<uint32_t>(blocks.size());
  }
}

CudaBatch CudaForwardModel::StageRows(const ForwardBatch& batch) {
  rows_.clear();
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    rows_.push_back({.slot = static_cast<uint32_t>(i), .decodes = batch.rows[i].num_tokens == 1});
  }
  CudaBatch staged =
      StageBatch(batch, rows_, model_.prefill_planner(), staging_.batch, token_places_);
  for (size_t i = 0; i < batch.logits_tokens.size(); ++i) {
    staging_.logits_tokens[i] = token_places_[batch.logits_tokens[i]];
  }
  staged.num_logits_rows = static_cast<int64_t>(batch.logits_tokens.size());
  const bool wants_all = staged.num_chunks == 0 && staged.num_logits_rows == staged.num_tokens;
  staged.logits_tokens = wants_all ? nullptr : staging_.logits_tokens;
  return staged;
}

absl::Status CudaForwardModel::EnqueueRank(CudaModel& rank, const CudaBatch& staged,
                                           int64_t num_slots) const {
  LOCKSTEP_RETURN_IF_ERROR(kernels::UpdateSlots(rank.stream(), {.state = rank.slots(),
                                                                .updates = staging_.updates,
                                                                .blocks = staging_.blocks,
                                                                .num_updates = num_slots}));
  return rank.Enqueue(staged);
}

absl::Status CudaForwardModel::Finish(std::span<float> logits) {
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(logits.data(), model_.logits(), logits.size_bytes(),
                                                cudaMemcpyDeviceToHost, model_.stream().handle));
  for (int rank = 0; rank < model_.num_ranks(); ++rank) {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(model_.rank(rank).stream().handle));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::worker
