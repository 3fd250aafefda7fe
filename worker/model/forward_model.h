#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/ids.h"

namespace lockstep::worker {

// One row of a step: consecutive tokens of one sequence. All spans belong to the caller.
struct ForwardRow {
  uint32_t first_token = 0;     // index of the row's first token in the batch
  uint32_t num_tokens = 0;      // >= 1
  uint32_t first_position = 0;  // position of that token in its sequence
  // By KV group. Each covers the positions before first_position + num_tokens that its group needs;
  // entry i is of positions i * block_size_tokens and up. Entries behind a window are never read.
  std::span<const std::vector<BlockId>> block_tables;
};

struct ForwardBatch {
  std::span<const TokenId> token_ids;  // [num_tokens], rows one after the other
  std::span<const ForwardRow> rows;    // [num_rows]
  std::span<const uint32_t>
      logits_tokens;  // ascending indices into token_ids whose logits are wanted
};

// Bytes that a model takes where it computes: memory of the GPU, or of the host.
struct MemoryUse {
  uint64_t weights_bytes = 0;
  uint64_t kv_cache_bytes = 0;
  uint64_t workspace_bytes = 0;  // intermediate values of a step, and state of slots
};

// Layers that keep their KV in one pool.
struct KvGroupInfo {
  uint32_t num_blocks = 0;
  uint32_t window_tokens = 0;  // a token reads itself and the window_tokens - 1 before it; 0: all
  std::string dtype;

  // The first position that the token at `position` reads.
  uint32_t FirstRead(uint32_t position) const {
    const bool is_cut = window_tokens > 0 && position >= window_tokens;
    return is_cut ? position + 1 - window_tokens : 0;
  }
};

// The executor's facts about a model and its KV pools.
struct ForwardModelInfo {
  std::string model_id;
  uint32_t vocab_size = 0;
  uint32_t max_context_tokens = 0;
  uint32_t max_step_tokens = 0;                          // workspace is sized for this many tokens
  uint32_t max_logits_rows = 0;                          // and this many logits rows
  uint32_t block_size_tokens = 16;                       // of every group
  std::vector<KvGroupInfo> kv_groups = {KvGroupInfo()};  // the first keeps all tokens
  uint32_t tensor_parallel = 1;                          // ranks that compute it; changes no bit
  std::string weights_dtype;
  std::string device;
  MemoryUse memory = {};
  uint64_t model_fingerprint = 0;
  uint64_t weights_fingerprint = 0;
  uint64_t tokenizer_fingerprint = 0;
  uint64_t numerics_id = 0;
};

// Dies if the model has no room for the batch. Callers keep to the limits in info().
void CheckBatchFits(const ForwardBatch& batch, std::span<const float> logits,
                    const ForwardModelInfo& info);

// A model with its paged KV cache. Computes one forward pass and waits for it: writes K and V of
// every token of the batch, then attends. The CPU serves through this class. CUDA serves through
// CudaModel::Enqueue, which does not wait; it has a ForwardModel only for the start-up probe and
// for tests. Lives on the executor thread. Knows bytes and shapes, never requests, slots or policy.
// Rows do not influence one another's bits (docs/numerics.md).
class ForwardModel {
 public:
  virtual ~ForwardModel() = default;
  virtual const ForwardModelInfo& info() const = 0;
  // logits: [logits_tokens.size(), vocab_size] fp32, row major. Arguments were checked by the
  // caller.
  virtual void Forward(const ForwardBatch& batch, std::span<float> logits) = 0;
};

}  // namespace lockstep::worker
