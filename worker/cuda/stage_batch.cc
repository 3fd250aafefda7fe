#include "worker/cuda/stage_batch.h"

#include <algorithm>

namespace lockstep::worker {

CudaBatch StageBatch(const ForwardBatch& batch, std::span<const StagedRow> rows,
                     const kernels::PrefillPlanner& planner, const BatchStaging& staging,
                     std::vector<uint32_t>& token_places) {
  CudaBatch staged = {.decode_slots = staging.decode_slots,
                      .chunks = staging.chunks,
                      .chunk_token_ids = staging.chunk_token_ids,
                      .tiles = staging.tiles.data(),
                      .num_tokens = static_cast<int64_t>(batch.token_ids.size())};
  token_places.resize(batch.token_ids.size());
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (!rows[i].decodes) continue;
    const ForwardRow& row = batch.rows[i];
    token_places[row.first_token] = static_cast<uint32_t>(staged.num_decode_rows);
    staging.decode_slots[staged.num_decode_rows++] = rows[i].slot;
    staged.max_decode_keys =
        std::max<int64_t>(staged.max_decode_keys, int64_t{row.first_position} + 1);
  }
  uint32_t place = static_cast<uint32_t>(staged.num_decode_rows);
  TokenId* chunk_token_ids = staging.chunk_token_ids;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    if (rows[i].decodes) continue;
    const ForwardRow& row = batch.rows[i];
    staging.chunks[staged.num_chunks++] = {.first_token = place,
                                           .num_tokens = row.num_tokens,
                                           .first_position = row.first_position,
                                           .block_table_row = rows[i].slot};
    for (uint32_t j = 0; j < row.num_tokens; ++j) {
      token_places[row.first_token + j] = place++;
      *chunk_token_ids++ = batch.token_ids[row.first_token + j];
    }
  }
  staged.prefill =
      planner.Plan({staging.chunks, static_cast<size_t>(staged.num_chunks)}, staging.tiles);
  return staged;
}

}  // namespace lockstep::worker
