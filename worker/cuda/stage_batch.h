#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/prefill_tiles.h"
#include "kernels/slots/slot_state.h"
#include "worker/cuda/model.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

// Pinned arrays that a batch is staged in, each with room for the largest batch.
struct BatchStaging {
  uint32_t* decode_slots = nullptr;
  kernels::AttentionChunk* chunks = nullptr;
  std::span<kernels::PrefillTile> tiles;
  TokenId* chunk_token_ids = nullptr;
};

// Where a row's sequence lives on the device. If `decodes`, the row is the latest token of its
// sequence, and the device knows this token. Otherwise the host gives the row's token ids.
struct StagedRow {
  uint32_t slot = 0;
  bool decodes = false;
};

// Puts a batch into the device's order: decode rows first, then the other rows as chunks. Also
// plans the attention of the chunks. `rows` is parallel to batch.rows. `token_places` receives the
// place of each of the batch's tokens in this order. The caller sets the fields of logits.
CudaBatch StageBatch(const ForwardBatch& batch, std::span<const StagedRow> rows,
                     const kernels::PrefillPlanner& planner, const BatchStaging& staging,
                     std::vector<uint32_t>& token_places);

}  // namespace lockstep::worker
