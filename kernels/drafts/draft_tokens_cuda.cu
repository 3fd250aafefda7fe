#include "common/status.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/timer.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/drafts/draft_tokens.h"
#include "kernels/slots/draft_rows.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;

// An earlier place of a suffix: longer is better, then later. 0: none.
using Match = unsigned long long;

__device__ __forceinline__ Match MakeMatch(uint32_t num_tokens, uint32_t end) {
  return num_tokens < kMinRepeatedTokens ? 0 : static_cast<Match>(num_tokens) << 32 | end;
}

// How many tokens before and at position `end` equal the last ones, up to kMaxRepeatedTokens.
// suffix[i] is the token at `last` - i; there are `suffix_size` of them.
__device__ __forceinline__ uint32_t CountEqual(const TokenId* known, uint32_t end,
                                               const TokenId* suffix, uint32_t suffix_size) {
  uint32_t count = 0;
  while (count < suffix_size && count <= end && known[end - count] == suffix[count]) ++count;
  return count;
}

// The best earlier place of the suffix that ends at position `last`. Call from all threads; every
// thread gets the result.
__device__ Match FindRepeat(const TokenId* known, uint32_t last) {
  __shared__ TokenId suffix[kMaxRepeatedTokens];
  __shared__ Match of_warps[kWarps];
  const uint32_t suffix_size = min(last + 1, kMaxRepeatedTokens);
  if (threadIdx.x < suffix_size) suffix[threadIdx.x] = known[last - threadIdx.x];
  __syncthreads();
  Match best = 0;
  // Several loads under way before the first is used.
  constexpr uint32_t kBatch = 4;
  for (uint32_t first = threadIdx.x; first < last; first += kBatch * kThreads) {
    bool equal[kBatch];
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i) {
      const uint32_t end = first + i * kThreads;
      equal[i] = end < last && known[end] == suffix[0];
    }
#pragma unroll
    for (uint32_t i = 0; i < kBatch; ++i) {
      const uint32_t end = first + i * kThreads;
      if (equal[i]) best = max(best, MakeMatch(CountEqual(known, end, suffix, suffix_size), end));
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    best = max(best, __shfl_xor_sync(0xFFFFFFFFu, best, distance));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = best;
  __syncthreads();
  for (const Match of_warp : of_warps) best = max(best, of_warp);
  return best;
}

// How many drafts a slot may have: there are rows for them, and the token behind the last of them
// is still part of the sequence.
__device__ uint32_t DraftLimit(const DraftTokensParams& all, int64_t first_row, uint32_t slot,
                               uint32_t last) {
  uint32_t num_rows = 0;
  for (int64_t row = first_row + 1; row < all.num_rows && all.rows.numbers[row] > 0; ++row) {
    ++num_rows;
  }
  const uint32_t max_total_tokens = all.params[slot].max_total_tokens;
  const uint32_t num_left = max_total_tokens - min(max_total_tokens, last + 2);
  return min(min(num_rows, all.rows.table.max_drafts), num_left);
}

// A slot that is to have drafts.
struct DraftingSlot {
  const TokenId* known;
  const TokenId* script;  // or null
  uint32_t last;          // position of the last known token
  uint32_t limit;         // of its drafts
};

// Writes the drafts, and returns how many there are. `match` counts without a script. Call from one
// thread.
__device__ uint32_t WriteDrafts(const DraftingSlot& slot, Match match, int64_t vocab_size,
                                TokenId* drafts) {
  if (slot.script == nullptr && match == 0) return 0;
  const auto end = static_cast<uint32_t>(match);
  for (uint32_t i = 0; i < slot.limit; ++i) {
    const TokenId draft = slot.script != nullptr ? slot.script[slot.last + 1 + i]
                                                 : slot.known[end + 1 + i % (slot.last - end)];
    if (draft >= vocab_size) return i;
    drafts[i] = draft;
  }
  return slot.limit;
}

// A block for each row. Only the blocks of last known tokens have work.
__global__ void __launch_bounds__(kThreads)
    DraftTokensKernel(const __grid_constant__ DraftTokensParams all) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t row = blockIdx.x;
  if (row == 0 && threadIdx.x == 0 && all.begin_ns != nullptr) *all.begin_ns = ptx::GlobalTimerNs();
  const uint32_t number = all.row_slots[row];
  if (number == kNoSlot || all.rows.numbers[row] != 0) return;
  const int64_t first_token = static_cast<int64_t>(number) * all.max_context_tokens;
  DraftingSlot slot = {.known = all.known_tokens + first_token,
                       .script = all.script == nullptr ? nullptr : all.script + first_token,
                       .last = all.state.position[number],
                       .limit = 0};
  if (all.state.active[number] != 0) slot.limit = DraftLimit(all, row, number, slot.last);
  Match match = 0;
  // The condition is the same for all threads.
  if (slot.limit > 0 && slot.script == nullptr) match = FindRepeat(slot.known, slot.last);
  if (threadIdx.x != 0) return;
  TokenId* const drafts =
      all.rows.table.tokens + static_cast<int64_t>(number) * all.rows.table.max_drafts;
  all.rows.table.num_drafts[number] = WriteDrafts(slot, match, all.vocab_size, drafts);
}

}  // namespace

absl::Status DraftTokens(const CudaStream& stream, const DraftTokensParams& params) {
  if (!params.rows.exist() || (params.script == nullptr && params.known_tokens == nullptr)) {
    return InvalidArgument("DraftTokens: no numbers of drafts, or nothing to draft from");
  }
  if (params.num_rows == 0) return absl::OkStatus();
  return Launch(stream, "DraftTokens",
                {.grid = dim3(static_cast<unsigned>(params.num_rows)), .block = kThreads},
                DraftTokensKernel, params);
}

}  // namespace lockstep::kernels
