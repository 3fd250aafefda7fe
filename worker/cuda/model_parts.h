#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/device/cuda_device.h"
#include "kernels/device/device_buffer.h"
#include "kernels/formats/fp8_activations/fp8_weights.h"
#include "kernels/gemm/plan/cuda_gemm.h"
#include "worker/comm/device_group.h"
#include "worker/comm/rank_team.h"
#include "worker/cuda/fused_pass.h"
#include "worker/cuda/kv_pool.h"
#include "worker/cuda/model.h"
#include "worker/model/layers/workspace.h"
#include "worker/model/plan/tensor_rank.h"
#include "worker/model/weights/weights.h"

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
  ModelPlan plan;   // of the whole model
  TensorRank rank;  // which part of it this is
  ModelPlan share;  // ShareOf(plan, rank)
  ForwardModelInfo info;
  DeviceGroup* exchange = nullptr;       // null if there is one rank
  std::unique_ptr<CudaRankGroup> group;  // rank 0 of several

  kernels::DeviceBuffer weight_memory;
  kernels::DeviceBuffer unpacked_memory;  // of matrices that could not stay packed
  kernels::Fp8Scratch fp8_scratch;        // of products with FP8 activations
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
  FusedPass fused_pass;
};

}  // namespace lockstep::worker
