#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "kernels/decoder/decode_layers.h"
#include "worker/cuda/kv_pool.h"
#include "worker/memory/arena.h"
#include "worker/model/layers/flow.h"
#include "worker/model/layers/logits.h"
#include "worker/model/loading.h"

namespace lockstep::worker {

// The decode rows of one batch. Pointers are to device memory.
struct FusedBatch {
  int64_t num_rows = 0;
  const TokenId* token_ids = nullptr;     // [num_rows]
  const BlockId* block_tables = nullptr;  // [slots, block_table_stride]
  int64_t block_table_stride = 0;
  const uint32_t* slots = nullptr;  // [num_rows]
};

// The decoder pass with one kernel for all layers, for small models and few decode rows. It has the
// bits of RunDecoderPass. The model chooses it before the inputs of the pass are prepared.
class FusedPass {
 public:
  // Decides how many rows use the pass. `plan` must have one kind of layers. If several ranks share
  // the model, nothing is fused.
  absl::Status Choose(const ModelOptions& options, const ModelPlan& plan, const TensorRank& rank,
                      const kernels::CudaStream& stream);
  bool is_used() const { return max_rows_ > 0; }
  // Takes the memory that is kept between passes, zero at first.
  void TakeMemory(int64_t max_context_tokens, Arena& arena);
  // Passes the places of weights and KV cache to the kernel. Does nothing if the pass is not used.
  absl::Status Upload(const ModelWeights& weights, const CudaKvPool& kv_pool,
                      const kernels::CudaStream& stream);

  // True if decode rows with up to `keys` keys each run in this pass.
  bool Takes(int64_t num_rows, int64_t keys) const {
    return num_rows <= max_rows_ && num_rows * keys <= max_keys_;
  }
  // Its first kernel lets no other kernel start before it has waited for its predecessor.
  absl::Status Run(const PassContext& context, StreamOps<kernels::CudaStream>& ops,
                   const FusedBatch& batch, const LogitsColumns& logits);

  // How many passes were enqueued, or captured.
  uint64_t num_passes() const { return num_passes_; }
  // Device memory, for tests of the tags in it.
  std::span<uint64_t> scratch() const {
    return {scratch_, static_cast<size_t>(num_scratch_words_)};
  }

 private:
  int64_t max_rows_ = 0;  // 0: it is not used
  int64_t max_keys_ = 0;  // number of rows times the keys that the step's graph is made for
  uint64_t num_passes_ = 0;
  kernels::DecodeLayersShape shape_;
  kernels::DecodeLayer* layers_ = nullptr;  // [num_layers], device memory
  uint64_t* scratch_ = nullptr;
  int64_t num_scratch_words_ = 0;
};

}  // namespace lockstep::worker
