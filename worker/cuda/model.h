#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/attention/prefill_tiles.h"
#include "kernels/slots/slot_state.h"
#include "worker/model/forward_model.h"
#include "worker/model/loading.h"
#include "worker/model/plan/model_plan.h"
#include "worker/model/plan/tensor_rank.h"

namespace lockstep::worker {

// One forward pass: decode rows first, then chunks. Pointers are to device memory, or to pinned
// memory where a comment says so. The host knows all sizes.
struct CudaBatch {
  const uint32_t* decode_slots = nullptr;  // [num_decode_rows], kNoSlot for padding
  int64_t num_decode_rows = 0;
  kernels::DraftRows draft_rows = {};  // of the decode rows
  // An upper bound of the keys that a decode row attends to.
  int64_t max_decode_keys = 0;
  bool decode_rows_share = false;  // see kernels::PagedDecodeAttentionParams::may_share
  const kernels::AttentionChunk* chunks = nullptr;  // [num_chunks], pinned; row: the slot
  const TokenId* chunk_token_ids = nullptr;         // pinned, complete before the call
  int64_t num_chunks = 0;
  kernels::PrefillPlan prefill = {};            // of the chunks
  const kernels::PrefillTile* tiles = nullptr;  // [prefill.num_tiles], pinned
  int64_t num_tokens = 0;                       // decode rows and tokens of the chunks
  // Tokens whose logits are wanted, device or pinned; null: every token's.
  const uint32_t* logits_tokens = nullptr;
  int64_t num_logits_rows = 0;
  uint64_t* begin_ns = nullptr;  // out, device: when the pass began; or null
};

// A model in the memory of one CUDA device: weights, KV pool, workspace, the state of its slots.
// Only enqueues. Belongs to one thread at a time.
//
// In a tensor-parallel group it is one rank's part of the model, on that rank's device. Rank 0's
// part owns the others and a thread for each of them. Every rank has the same slots, block tables
// and KV blocks. Each computes the whole logits, so each can sample, and all sample the same
// tokens.
class CudaModel {
 public:
  // Made by LoadCudaModel.
  struct Parts;
  explicit CudaModel(std::unique_ptr<Parts> parts);
  ~CudaModel();

  const ForwardModelInfo& info() const;
  const ModelPlan& plan() const;
  int device() const;  // index
  const TensorRank& tensor_rank() const;
  const kernels::CudaStream& stream() const;
  const kernels::SlotState& slots() const;
  float* logits() const;  // [max_logits_rows, vocab_size], device memory
  const kernels::PrefillPlanner& prefill_planner() const;
  int64_t max_prefill_tiles() const;  // of a batch

  // Of rank 0 alone.
  int num_ranks() const;
  CudaModel& rank(int index);  // rank(0) is this object
  // Calls body(rank) for every rank at once, each on the thread of its device: rank 0's is the
  // calling thread. Every pass must be enqueued for all ranks. Dies if a rank takes `hung_after`
  // longer than rank 0.
  void OnRanks(absl::FunctionRef<void(int)> body,
               std::chrono::nanoseconds hung_after = std::chrono::seconds(3));
  // After an error of a device: ": ", the rank that waited too long and the rank that did not come.
  // Empty if none waited too long.
  std::string HangReport() const;
  // If the status is an error, names a hanging rank, if any, and ends the process. The device is
  // lost then, or a launch was malformed, and nothing can be rescued here. The router resumes every
  // sequence on another replica.
  void ExpectOk(const absl::Status& status) const;

  // Inputs, layers, logits. The batch has been checked.
  absl::Status Enqueue(const CudaBatch& batch);

  // Call after the model has run its probe.
  void set_numerics_id(uint64_t id);
  // How many passes were enqueued, or captured, with all layers in one kernel.
  uint64_t num_fused_passes() const;
  // For tests that poison unused blocks.
  std::span<std::byte> kv_bytes() const;
  // Device memory that kernels::DecodeLayers keeps between calls; empty if that kernel is not used.
  // For tests of the tags in it.
  std::span<uint64_t> fused_scratch() const;

 private:
  std::unique_ptr<Parts> parts_;
};

// Loads a GGUF file or a folder with config.json and safetensors onto the devices, converts
// matrices to bf16 and vectors to fp32, sizes the KV pool, checks the reduction contract and
// computes the numerics id (docs/numerics.md). Errors name the file and what was expected, or the
// memory that is short. Returns rank 0's part.
absl::StatusOr<std::unique_ptr<CudaModel>> LoadCudaModel(const std::string& path,
                                                         const ModelOptions& options);

}  // namespace lockstep::worker
