#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/timer.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/kv_cache/paged_kv.h"
#include "kernels/slots/draft_rows.cuh"
#include "kernels/slots/slot_state.h"

namespace lockstep::kernels {
namespace {

constexpr int kUpdateThreads = 64;
constexpr int kInputThreads = 128;

// Updates and blocks are complete before the call, and mostly lie in host memory, which is slow to
// read. So they are read while the previous kernel still runs, except blocks beyond the first few.
__global__ void UpdateSlotsKernel(SlotUpdateParams params) {
  ptx::AllowSuccessor();
  const SlotUpdate update = params.updates[blockIdx.x];
  const BlockId* const blocks = params.blocks + update.block_offset;
  const BlockId first = threadIdx.x < update.num_blocks ? blocks[threadIdx.x] : BlockId{};
  ptx::WaitForPredecessor();
  const SlotState& state = params.state;
  if (threadIdx.x == 0 && update.sets_state != 0) {
    state.last_token[update.slot] = update.last_token;
    state.position[update.slot] = update.position;
    state.active[update.slot] = update.active;
  }
  BlockId* table = state.block_tables + update.slot * state.max_blocks + update.first_block;
  if (threadIdx.x < update.num_blocks) table[threadIdx.x] = first;
  for (uint32_t i = threadIdx.x + kUpdateThreads; i < update.num_blocks; i += kUpdateThreads) {
    table[i] = blocks[i];
  }
}

// Token `index` of the batch is at `position` of the sequence in `slot`.
__device__ void WriteInput(const StepInputParams& params, int64_t index, uint32_t slot,
                           TokenId token, uint32_t position) {
  const BlockId block =
      params.state.block_tables[slot * params.state.max_blocks + position / kKvBlockTokens];
  params.token_ids[index] = token;
  params.positions[index] = position;
  params.kv_slots[index] =
      static_cast<uint64_t>(block) * kKvBlockTokens + position % kKvBlockTokens;
}

__device__ void WritePadding(const StepInputParams& params, int64_t index) {
  params.token_ids[index] = 0;
  params.positions[index] = kNoPosition;
  params.kv_slots[index] = kNoKvSlot;
}

__device__ int64_t ChunkOfToken(const StepInputParams& params, int64_t token) {
  int64_t low = 0;
  int64_t high = params.num_chunks - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (params.chunks[middle].first_token <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Without next_may_start no successor starts early. With it, the next kernel waits before it lets
// others start. Either way all kernels after that may read what this kernel and the kernels before
// it wrote, without waiting for their own predecessors.
__global__ void PrepareStepInputsKernel(StepInputParams params) {
  if (params.next_may_start) ptx::AllowSuccessor();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kInputThreads + threadIdx.x;
  const bool is_of_chunk = index >= params.num_decode_rows && index < params.num_tokens;
  const TokenId of_chunk =
      is_of_chunk ? params.chunk_token_ids[index - params.num_decode_rows] : TokenId{};
  ptx::WaitForPredecessor();
  if (index == 0 && params.begin_ns != nullptr) *params.begin_ns = ptx::GlobalTimerNs();
  if (index >= params.num_tokens) return;
  const SlotState& state = params.state;
  if (index < params.num_decode_rows) {
    const uint32_t slot = params.decode_slots[index];
    const uint32_t draft = DraftNumber(params.draft_rows, index);
    if (!IsLiveRow(state, params.draft_rows, slot, draft)) return WritePadding(params, index);
    const TokenId token =
        draft == 0 ? state.last_token[slot] : DraftOf(params.draft_rows, slot, draft);
    return WriteInput(params, index, slot, token, state.position[slot] + draft);
  }
  const AttentionChunk chunk = params.chunks[ChunkOfToken(params, index)];
  const uint32_t offset = static_cast<uint32_t>(index) - chunk.first_token;
  WriteInput(params, index, chunk.block_table_row, of_chunk, chunk.first_position + offset);
}

}  // namespace

absl::Status UpdateSlots(const CudaStream& stream, const SlotUpdateParams& params) {
  if (params.num_updates == 0) return absl::OkStatus();
  return Launch(stream, "UpdateSlots",
                {.grid = dim3(static_cast<unsigned>(params.num_updates)), .block = kUpdateThreads},
                UpdateSlotsKernel, params);
}

absl::Status PrepareStepInputs(const CudaStream& stream, const StepInputParams& params) {
  if (params.num_tokens == 0) return absl::OkStatus();
  const int64_t num_blocks = (params.num_tokens + kInputThreads - 1) / kInputThreads;
  return Launch(stream, "PrepareStepInputs",
                {.grid = dim3(static_cast<unsigned>(num_blocks)), .block = kInputThreads},
                PrepareStepInputsKernel, params);
}

}  // namespace lockstep::kernels
