#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/attention/prefill_tiles.h"
#include "kernels/slots/slot_state.h"
#include "worker/model/forward_model.h"
#include "worker/model/layout/model_spec.h"

namespace lockstep::worker {

struct CudaModelOptions {
  int device = 0;
  uint32_t num_kv_blocks = 0;     // 0: what `memory_fraction` of the free memory holds
  double memory_fraction = 0.92;  // of what is free once weights and workspace are in place
  // Device memory that will be asked for after the model is loaded, and that the KV pool must leave
  // free; null: none.
  std::function<size_t(const ModelSpec&)> reserved_bytes = nullptr;
  uint32_t max_slots = 256;  // sequences resident at once
  uint32_t max_step_tokens = 8192;
  uint32_t max_logits_rows = 256;
  int num_threads = 0;          // that load weights; 0: one per core
  bool random_weights = false;  // config.json alone; seeded random numbers in place of tensors
  uint64_t random_seed = 1;
  // Refuse to serve where a row's bits depend on its batch mates. Off only in the test that plants
  // this fault in order to see that the schedule-invariance test finds it too.
  bool check_reduction_contract = true;
  // Decode steps of up to so many rows run all layers in one kernel, if there is one for the shape;
  // unset: where that is faster. At least 0. Changes no bit.
  std::optional<int64_t> max_fused_rows = std::nullopt;
  // Start each kernel while the one before it drains.
  bool overlap_launches = true;
  // Called from the loading thread with "weights" or "self-check" and the share that is done.
  std::function<void(std::string_view stage, double fraction)> progress = nullptr;
};

// One forward pass in device memory: decode rows first, then chunks. Device pointers, or pinned
// memory where it says so; sizes are the host's.
struct CudaBatch {
  const uint32_t* decode_slots = nullptr;  // [num_decode_rows], kNoSlot for padding
  int64_t num_decode_rows = 0;
  // An upper bound of the keys that a decode row attends to.
  int64_t max_decode_keys = 0;
  bool decode_rows_share = false;  // see kernels::PagedDecodeAttentionParams::may_share
  const kernels::AttentionChunk* chunks = nullptr;  // [num_chunks], device or pinned; row: the slot
  const TokenId* chunk_token_ids = nullptr;         // device or pinned
  int64_t num_chunks = 0;
  kernels::PrefillPlan prefill = {};            // of the chunks
  const kernels::PrefillTile* tiles = nullptr;  // [prefill.num_tiles], device or pinned
  int64_t num_tokens = 0;                       // decode rows and tokens of the chunks
  // Tokens whose logits are wanted, device or pinned; null: every token's.
  const uint32_t* logits_tokens = nullptr;
  int64_t num_logits_rows = 0;
  uint64_t* begin_ns = nullptr;  // out, device: when the pass began; or null
};

// A model in the memory of one CUDA device: weights, KV pool, workspace, the state of its slots.
// Only enqueues. Belongs to one thread at a time.
class CudaModel {
 public:
  // Made by LoadCudaModel.
  struct Parts;
  explicit CudaModel(std::unique_ptr<Parts> parts);
  ~CudaModel();

  const ForwardModelInfo& info() const;
  const ModelSpec& spec() const;
  int device() const;  // index
  const kernels::CudaStream& stream() const;
  const kernels::SlotState& slots() const;
  float* logits() const;  // [max_logits_rows, vocab_size], device memory
  const kernels::PrefillPlanner& prefill_planner() const;
  int64_t max_prefill_tiles() const;  // of a batch

  // Inputs, layers, logits. The batch has been checked.
  absl::Status Enqueue(const CudaBatch& batch);

  // Known only once the model has run its probe.
  void set_numerics_id(uint64_t id);
  // How many passes were enqueued, or captured, with all layers in one kernel.
  uint64_t num_fused_passes() const;
  // For tests that poison what is not in use.
  std::span<std::byte> kv_bytes() const;
  // For tests of its tags: what kernels::DecodeLayers keeps between calls, in device memory; empty
  // if it is not used.
  std::span<uint64_t> fused_scratch() const;

 private:
  std::unique_ptr<Parts> parts_;
};

// Loads a GGUF file or a folder with config.json and safetensors onto the device, converts weights
// to bf16, sizes the KV pool, checks the reduction contract and computes the numerics id
// (docs/numerics.md). Errors name the file and what was expected, or the memory that is short.
absl::StatusOr<std::unique_ptr<CudaModel>> LoadCudaModel(const std::string& path,
                                                         const CudaModelOptions& options);

}  // namespace lockstep::worker
