#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "common/ids.h"
#include "kernels/attention/attention_borders.h"
#include "kernels/attention/prefill_tiles.h"
#include "kernels/core/bfloat16.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::kernels {

struct Stream;  // kernels/core/stream.h

// Keys that one online-softmax step folds in, aligned to position 0.
inline constexpr int64_t kKeyTile = 64;
// On the CPU, partial results are closed at every multiple of this position (docs/numerics.md, rule
// 3).
inline constexpr int64_t kAttentionSplitKeys = 1024;

// Consecutive tokens of one sequence. Their own keys and values are in the pool already.
struct AttentionSequence {
  int64_t first_token = 0;  // row of `query` and `output`
  int64_t num_tokens = 0;
  int64_t first_position = 0;
  // Covers positions 0 .. first_position + num_tokens - 1. Entries of blocks that lie wholly before
  // the window of the first token are never read.
  const BlockId* block_table = nullptr;
};

// Causal softmax attention over a paged KV pool, for decode rows and prefill chunks alike: a token
// at position p attends to keys 0 .. p, in an order that depends on p alone. With a window of W
// tokens it attends to keys max(0, p - W + 1) .. p, in the same tiles and between the same borders.
// Keys before that may hold anything. Over codes it gives the bits that elements rounded to these
// codes would give.
struct PagedAttentionParams {
  const BFloat16* query = nullptr;  // [num_tokens, num_heads, head_dim]
  int64_t query_stride = 0;         // elements between tokens
  BFloat16* output = nullptr;       // [num_tokens, num_heads, head_dim]
  int64_t output_stride = 0;
  PagedKv kv;
  std::span<const AttentionSequence> sequences;
  int64_t num_heads = 0;                     // a multiple of kv.num_kv_heads
  float scale = 1.0f;                        // on query times key
  int64_t split_keys = kAttentionSplitKeys;  // a multiple of kKeyTile
  int64_t window_tokens =
      0;  // a token reads itself and the window_tokens - 1 before it; 0: all before it
};

// INVALID_ARGUMENT for an odd head_dim or one above 512, heads that no KV head serves, or a
// negative window.
absl::Status PagedAttention(const Stream& stream, const PagedAttentionParams& params);

// On CUDA two kernels share the work of a step: single tokens go to PagedDecodeAttention, chunks to
// PagedPrefillAttention. Both give the same bits for the same token, so the choice may depend on
// the step. In every batch, partials are closed at AttentionSplitBegin(1), (2), ...
//
// K and V are in the order of kernels/kv_cache/device_paged_kv.h. Those of the tokens attended to
// must be in place and finite: a value that is not finite reaches every later token of its tile of
// 64 keys. All others may hold anything.
//
// head_dim: 16, 32, 64, 80, 96, 128 or 256, with codes a multiple of 32 of these. scale is
// positive. At most 16 heads share a KV head. Strides are multiples of 8 elements, pointers aligned
// to 16 bytes. All pointers are device pointers; what is read through them may change between
// replays of a graph.

// The position of a padding row. Nothing of the row is read, and its output is set to zero.
inline constexpr uint32_t kNoPosition = UINT32_MAX;

// With overlapped launches the kernel reads some inputs before it waits for its predecessor: the
// plan, positions, block_table_rows, block_tables, and the keys and values of every position but a
// row's last num_new_keys. The kernel that writes one of these must let no successor start before
// it has ended, as PrepareStepInputs (without next_may_start) and PlanPagedDecode do.
struct PagedDecodeAttentionParams {
  const BFloat16* query = nullptr;  // [num_rows, num_heads, head_dim]
  int64_t query_stride = 0;         // elements between rows
  BFloat16* output = nullptr;       // [num_rows, num_heads, head_dim]
  int64_t output_stride = 0;
  PagedKv kv;
  int64_t num_heads = 0;                  // a multiple of kv.num_kv_heads
  float scale = 1.0f;                     // on query times key
  int64_t num_rows = 0;                   // at most kMaxDecodeRows
  const uint32_t* positions = nullptr;    // [num_rows] of the row's token, or kNoPosition
  const BlockId* block_tables = nullptr;  // [tables, block_table_stride]
  int64_t block_table_stride = 0;
  const uint32_t* block_table_rows = nullptr;  // [num_rows]; null: row i has table i
  int64_t max_keys = 0;                        // no row has more; bounds the grid, changes no bit
  // How many of a row's last keys the kernel before may write: more than 1 where several rows are
  // of one sequence. Changes no bit.
  int64_t num_new_keys = 1;
  // Rows whose tables begin with the same blocks read these blocks together. The kernel that can do
  // this is slower for other rows. Changes no bit.
  bool may_share = false;
  int32_t* plan = nullptr;       // [DecodePlanElements(num_rows)], aligned to 32 bytes
  float* partials = nullptr;     // DecodePartialElements(...) of scratch space
  uint32_t* arrivals = nullptr;  // [DecodeArrivalElements(...)], zero before and after every call
};

inline constexpr int64_t kMaxDecodeRows = 1024;
inline constexpr int64_t kMaxDecodeRuns = 1024;
inline constexpr int64_t kDecodeRunElements = 64;  // of a plan, for each run

// For plans of up to `num_rows` rows.
constexpr int64_t DecodePlanElements(int64_t num_rows) {
  return (8 + 2) * num_rows + 8 * (num_rows / 2) + kDecodeRunElements * kMaxDecodeRuns;
}

// For calls of up to `num_rows` rows of up to `max_keys` keys.
constexpr int64_t DecodePartialElements(int64_t num_rows, int64_t num_heads, int64_t num_kv_heads,
                                        int64_t head_dim, int64_t max_keys) {
  const int64_t group = num_heads / num_kv_heads;
  const int64_t per_split = group * head_dim + (2 * group + 3) / 4 * 4;
  return num_rows * num_kv_heads * NumAttentionSplits(max_keys) * per_split;
}

// One counter per row and KV head.
constexpr int64_t DecodeArrivalElements(int64_t num_rows, int64_t num_kv_heads) {
  return num_rows * num_kv_heads;
}

// Writes the plan of a step, which all its layers use. The plan holds numbers of blocks. Another
// call of PagedDecodeAttention may use it only with the same shape, rows, positions and block
// tables. `query`, `output`, `kv.data`, `partials` and `arrivals` are not used. With overlapped
// launches it reads positions, block_table_rows and block_tables, and writes the plan, before it
// waits for its predecessor. So between an attention that uses an earlier plan and this call there
// must be a kernel that lets no successor start early.
absl::Status PlanPagedDecode(const CudaStream& stream, const PagedDecodeAttentionParams& params);

// Follows the plan in `params.plan`.
absl::Status PagedDecodeAttention(const CudaStream& stream,
                                  const PagedDecodeAttentionParams& params);

// Consecutive tokens of one sequence, in device memory. num_tokens = 0: padding.
struct AttentionChunk {
  uint32_t first_token = 0;  // row of `query` and `output`
  uint32_t num_tokens = 0;
  uint32_t first_position = 0;
  uint32_t block_table_row = 0;  // of `block_tables`
};

struct PagedPrefillAttentionParams {
  const BFloat16* query = nullptr;  // [num_tokens, num_heads, head_dim]
  int64_t query_stride = 0;         // elements between tokens
  BFloat16* output = nullptr;       // [num_tokens, num_heads, head_dim]
  int64_t output_stride = 0;
  PagedKv kv;
  int64_t num_heads = 0;
  float scale = 1.0f;
  const AttentionChunk* chunks = nullptr;
  const PrefillTile* tiles = nullptr;  // [num_tiles]; PrefillPlanner makes this and the next two
  int64_t num_tiles = 0;
  int64_t tile_rows = kSmallPrefillTileRows;
  const BlockId* block_tables = nullptr;  // [rows, block_table_stride]
  int64_t block_table_stride = 0;
  // [PrefillPlanner::ScratchElements()], aligned to 16 bytes; unused if that is 0. Calls on
  // different streams need one scratch each. Those on one stream share it, also where launches
  // overlap, because each waits for its predecessor first. The next call needs nothing of the
  // contents.
  float* scratch = nullptr;
};

// INVALID_ARGUMENT for a shape that no kernel takes, or without the scratch that it needs.
absl::Status PagedPrefillAttention(const CudaStream& stream,
                                   const PagedPrefillAttentionParams& params);

}  // namespace lockstep::kernels
