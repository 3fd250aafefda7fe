#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_runs.h"
#include "kernels/attention/paged_attention.h"

// The plan of a step's decode attention in device memory: PlanPagedDecode writes it once a step,
// and the attention of every layer reads it.
namespace lockstep::kernels {

// Rows of one matrix product. Each is one query head. They belong to one row of the step, or to
// several rows with the same keys, and share the keys and values that are read.
inline constexpr int kQueryRows = 16;

// How many rows of the step may share one matrix product.
constexpr int MaxSharingRows(const PagedDecodeAttentionParams& params) {
  const int group = static_cast<int>(params.num_heads / params.kv.num_kv_heads);
  return params.may_share && group < kQueryRows ? kQueryRows / group : 1;
}

// The plan's arrays in `memory`, for at most `max_runs` runs of `num_rows` rows.
struct DecodePlanMemory {
  __host__ __device__ DecodePlanMemory(int32_t* memory, int num_rows, int max_runs)
      : shared_strands(reinterpret_cast<DecodeStrand*>(memory)),
        own_strands(shared_strands + num_rows / 2),
        shared_cuts(reinterpret_cast<DecodeCut*>(own_strands + num_rows)),
        own_cuts(shared_cuts + max_runs + 1),
        rows(reinterpret_cast<int*>(own_cuts + max_runs + 1)),
        num_parts(rows + num_rows) {}

  __device__ DecodeRunWalk Walk(int run) const {
    return DecodeRunWalk({shared_strands, shared_cuts[run], shared_cuts[run + 1]},
                         {own_strands, own_cuts[run], own_cuts[run + 1]});
  }

  DecodeStrand* shared_strands;  // [num_rows / 2], of at least two rows each
  DecodeStrand* own_strands;     // [num_rows]
  DecodeCut* shared_cuts;  // [max_runs + 1]: where each run begins; the last runs may be empty
  DecodeCut* own_cuts;     // [max_runs + 1]
  int* rows;               // [num_rows]: row numbers; the rows of a shared strand are consecutive
  int* num_parts;          // [num_rows]: parts that the row's result is folded from; 0: padding
};

}  // namespace lockstep::kernels
