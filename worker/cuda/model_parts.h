#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/decoder/decode_layers.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/plan/cuda_gemm.h"
#include "worker/comm/device_group.h"
#include "worker/comm/rank_team.h"
#include "worker/cuda/kv_pool.h"
#include "worker/cuda/model.h"
#include "worker/model/layout/tensor_rank.h"
#include "worker/model/weights/weights.h"
#include "worker/model/workspace.h"

namespace lockstep::worker {

// Owns a CUDA stream. Waits for all work on the stream before it destroys it.
class OwnedCudaStream {
 public:
  static absl::StatusOr<OwnedCudaStream> Create();
  OwnedCudaStream() = default;
  OwnedCudaStream(OwnedCudaStream&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  OwnedCudaStream& operator=(OwnedCudaStream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnedCudaStream();

  CUstream_st* get() const { return handle_; }

 private:
  CUstream_st* handle_ = nullptr;
};

// The kernel that computes all layers at once, for steps of few rows.
struct FusedLayers {
  int64_t max_rows = 0;  // 0: it is not used
  int64_t max_keys = 0;  // number of rows times the keys that the step's graph is made for
  uint64_t num_passes = 0;
  kernels::DecodeLayersShape shape;
  kernels::DecodeLayer* layers = nullptr;  // [num_layers], device memory
  uint64_t* scratch = nullptr;
  int64_t num_scratch_words = 0;

  // Whether decode rows with up to so many keys each run in it.
  bool Takes(int64_t num_rows, int64_t keys) const {
    return num_rows <= max_rows && num_rows * keys <= max_keys;
  }
};

// What several ranks have in common. Rank 0's model owns it.
struct CudaRankGroup {
  std::unique_ptr<DeviceGroup> exchange;
  std::vector<std::unique_ptr<CudaModel>> others;  // ranks 1, 2, ...
  std::unique_ptr<RankTeam> team;
};

// Everything a CudaModel owns.
struct CudaModel::Parts {
  OwnedCudaStream owned_stream;
  int device_index = 0;
  kernels::CudaDevice device;
  kernels::CudaStream stream;
  ModelSpec spec;   // of the whole model
  TensorRank rank;  // which part of it this is
  ModelSpec share;  // ShareOf(spec, rank)
  ForwardModelInfo info;
  DeviceGroup* exchange = nullptr;       // null if there is one rank
  std::unique_ptr<CudaRankGroup> group;  // rank 0 of several

  kernels::DeviceBuffer weight_memory;
  ModelWeights weights;
  kernels::DeviceBuffer workspace_memory;
  Workspace workspace;
  CudaKvPool kv_pool;
  std::unique_ptr<kernels::CudaGemm> gemm;
  bool fuses_activation = true;  // this and the next: see ModelOptions
  bool fuses_exchange = true;

  // The pointers below point into this memory. The workspace, which both backends have, is apart.
  kernels::DeviceBuffer state_memory;
  kernels::SlotState slots;
  TokenId* token_ids = nullptr;               // [max_step_tokens]
  kernels::AttentionChunk* chunks = nullptr;  // [max_slots]
  kernels::PrefillTile* tiles = nullptr;      // [max_prefill_tiles]
  kernels::PrefillPlanner prefill_planner;
  int64_t max_prefill_tiles = 0;
  float* prefill_scratch = nullptr;  // [prefill_planner.ScratchElements()]
  float* logits = nullptr;           // [max_logits_rows, vocab_size]
  // [max_logits_rows, vocab_size / degree], of this rank; the logits themselves if there is one
  // rank.
  float* logits_columns = nullptr;
  float* rope_cos = nullptr;  // [max_context_tokens, head_dim / 2]
  float* rope_sin = nullptr;
  int32_t* attention_plan = nullptr;  // of the decode rows of a step
  float* attention_partials = nullptr;
  uint32_t* attention_arrivals = nullptr;  // zero between calls
  FusedLayers fused_layers;
};

}  // namespace lockstep::worker
