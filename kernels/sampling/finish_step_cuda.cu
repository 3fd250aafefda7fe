#include "common/status.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/timer.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/sampling/finish_step.h"
#include "kernels/slots/draft_rows.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kFinishThreads = 1024;
constexpr int kCountThreads = 1024;

__device__ bool IsStopToken(const SamplerTables& tables, const DeviceSampleParams& params,
                            TokenId token) {
  for (uint32_t i = 0; i < params.num_stop; ++i) {
    if (tables.list_ids[params.stop_begin + i] == token) return true;
  }
  return false;
}

// Makes the sampled token the sequence's last one. Returns whether the sequence ends with it, and
// why.
__device__ DeviceStopCause AppendToken(const FinishStepParams& all, uint32_t slot, TokenId token) {
  const DeviceSampleParams& params = all.tables.params[slot];
  const uint32_t position = all.state.position[slot] + 1;
  all.state.last_token[slot] = token;
  all.state.position[slot] = position;
  if (all.known_tokens != nullptr) {
    all.known_tokens[static_cast<int64_t>(slot) * all.max_context_tokens + position] = token;
  }
  if (params.count_row != kNoCountRow) {
    uint32_t& count = all.tables.token_counts[params.count_row * all.vocab_size + token];
    count = count == 0 ? 2 : count + 1;
  }
  if (IsStopToken(all.tables, params, token)) return kStoppedByToken;
  return position + 1 >= params.max_total_tokens ? kStoppedByLength : kStillRuns;
}

// Applies a row's result to its slot, and adds how the sequence goes on.
__device__ void ApplyRow(const FinishStepParams& all, SampledRow& result) {
  if (result.status == kNotSampled) return;
  if (result.status == kSampled) {
    result.stop_cause = AppendToken(all, result.slot, result.token);
  }
  if (result.status == kNoTokenLeft || result.stop_cause != kStillRuns) {
    all.state.active[result.slot] = 0;
  }
}

// Whether the row behind one with this result counts: the slot goes on, and the row's draft is the
// token that was sampled.
__device__ bool IsRightDraft(const FinishStepParams& all, int64_t row, const SampledRow& before) {
  if (before.status != kSampled || before.stop_cause != kStillRuns) return false;
  const uint32_t draft = all.draft_rows.numbers[row];
#ifdef LOCKSTEP_PLANT_ACCEPT_ALL
  return draft <= all.draft_rows.table.num_drafts[before.slot];
#endif
  return draft <= all.draft_rows.table.num_drafts[before.slot] &&
         DraftOf(all.draft_rows, before.slot, draft) == before.token;
}

__device__ bool IsDraftRow(const FinishStepParams& all, int64_t row) {
  return row < all.num_rows && DraftNumber(all.draft_rows, row) > 0;
}

// Finishes the row of a last known token, and the rows of its slot's drafts behind it.
__device__ void FinishSequence(const FinishStepParams& all, int64_t first, SampledRow* results) {
  SampledRow before;
  bool counts = true;
  for (int64_t row = first; row == first || IsDraftRow(all, row); ++row) {
    SampledRow result = {.slot = all.row_slots[row],
                         .token = all.tokens[row],
                         .status = all.statuses[row],
                         .stop_cause = kStillRuns};
    counts = row == first || (counts && IsRightDraft(all, row, before));
    if (counts) {
      ApplyRow(all, result);
    } else if (result.status != kNotSampled) {
      result.status = kNotKept;
    }
    results[row] = result;
    before = result;
  }
}

__device__ void CopyDescriptions(const FinishStepParams& all, uint64_t entry) {
  static_assert(sizeof(RowDescription) % sizeof(uint4) == 0);
  const int64_t num_words =
      all.num_rows * static_cast<int64_t>(sizeof(RowDescription) / sizeof(uint4));
  const uint4* const source = reinterpret_cast<const uint4*>(all.descriptions);
  uint4* const target = reinterpret_cast<uint4*>(all.ring.descriptions + entry * all.ring.max_rows);
  for (int64_t i = threadIdx.x; i < num_words; i += kFinishThreads) target[i] = source[i];
}

__global__ void __launch_bounds__(kFinishThreads)
    FinishStepKernel(const __grid_constant__ FinishStepParams all) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const uint64_t serial = *all.ring.next;
  const uint64_t entry = serial % all.ring.capacity;
  SampledRow* const rows = all.ring.rows + entry * all.ring.max_rows;
  for (int64_t row = threadIdx.x; row < all.num_rows; row += kFinishThreads) {
    if (DraftNumber(all.draft_rows, row) == 0) FinishSequence(all, row, rows);
  }
  if (all.descriptions != nullptr) CopyDescriptions(all, entry);
  __syncthreads();
  if (threadIdx.x != 0) return;
  *all.ring.next = serial + 1;
  all.ring.begin_ns[entry] = all.begin_ns == nullptr ? 0 : *all.begin_ns;
  all.ring.end_ns[entry] = ptx::GlobalTimerNs();
  // The host must see the results before it sees that they are there. The fence of this thread is
  // also one for what the others wrote before the barrier.
  __threadfence_system();
  *static_cast<volatile uint64_t*>(all.ring.reported + entry) = serial + 1;
}

__global__ void __launch_bounds__(kCountThreads) CountTokensKernel(CountTokensParams params) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const CountUpdate update = params.updates[blockIdx.x];
  uint32_t* const counts = params.token_counts + update.count_row * params.vocab_size;
  const TokenId* const tokens = params.tokens + update.token_offset;
  for (int64_t i = threadIdx.x; i < params.vocab_size; i += kCountThreads) counts[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < update.num_known; i += kCountThreads) counts[tokens[i]] = 1;
  __syncthreads();
  for (uint32_t i = update.num_prompt + threadIdx.x; i < update.num_known; i += kCountThreads) {
    atomicAdd(counts + tokens[i], 1u);
  }
}

}  // namespace

absl::Status FinishStep(const CudaStream& stream, const FinishStepParams& params) {
  if (params.num_rows > params.ring.max_rows) {
    return InvalidArgument("FinishStep: {} rows, the ring holds {}", params.num_rows,
                           params.ring.max_rows);
  }
  return Launch(stream, "FinishStep", {.grid = 1, .block = kFinishThreads}, FinishStepKernel,
                params);
}

absl::Status CountTokens(const CudaStream& stream, const CountTokensParams& params) {
  if (params.num_updates == 0) return absl::OkStatus();
  return Launch(stream, "CountTokens",
                {.grid = dim3(static_cast<unsigned>(params.num_updates)), .block = kCountThreads},
                CountTokensKernel, params);
}

}  // namespace lockstep::kernels
