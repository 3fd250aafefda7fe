#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/decode/decode_warp.cuh"

// The parts of a row's result: how the math warps fold splits into a part, write it, and fold the
// parts of a row.
namespace lockstep::kernels {

inline constexpr int kFoldBatch = 6;  // partials of a row that are requested at once

// Part `part` of a row's partial results for one KV head. The layout is [row][part][kv_head].
template <int kHeadDim>
__device__ __forceinline__ float* Partial(const DecodeArguments& arguments, int row, int part,
                                          int kv_head) {
  const auto num_kv_heads = static_cast<int>(arguments.params.kv.num_kv_heads);
  const int slot = (row * arguments.max_parts + part) * num_kv_heads + kv_head;
  return arguments.params.partials +
         static_cast<int64_t>(slot) * PartialStride(arguments.group, kHeadDim);
}

// Folds the parts of a row in ascending order, and writes the row's output. Call from all math
// threads.
template <int kHeadDim>
__device__ __forceinline__ void FoldParts(const DecodeArguments& arguments, const DecodeItemRow& of,
                                          int kv_head) {
  const PagedDecodeAttentionParams& params = arguments.params;
  const int64_t part_stride = params.kv.num_kv_heads * PartialStride(arguments.group, kHeadDim);
  const float* partial = Partial<kHeadDim>(arguments, of.row, 0, kv_head);
  constexpr int kQuads = kHeadDim / 4;
  for (int i = threadIdx.x; i < arguments.group * kQuads; i += kMathThreads) {
    const float* values = partial + 4 * i;
    const float* states = partial + arguments.group * kHeadDim + 2 * (i / kQuads);
    SoftmaxRow row;
    float4 sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int base = 0; base < of.num_parts; base += kFoldBatch) {
      float4 open[kFoldBatch];
      float2 open_state[kFoldBatch];
#pragma unroll
      for (int j = 0; j < kFoldBatch; ++j) {
        open_state[j] = make_float2(kNoScore, 0.0f);
        if (base + j >= of.num_parts) continue;
        open[j] = __ldcg(reinterpret_cast<const float4*>(values + (base + j) * part_stride));
        open_state[j] = __ldcg(reinterpret_cast<const float2*>(states + (base + j) * part_stride));
      }
#pragma unroll
      for (int j = 0; j < kFoldBatch; ++j) {
        const PartialFold fold(row.reference, open_state[j].x, arguments.exponent_scale);
        row.reference = fold.reference;
        row.sum = fold(row.sum, open_state[j].y);
        sums = make_float4(fold(sums.x, open[j].x), fold(sums.y, open[j].y),
                           fold(sums.z, open[j].z), fold(sums.w, open[j].w));
      }
    }
    const float reciprocal = __frcp_rn(row.sum);
    const uint2 pairs =
        make_uint2(FinishPair(sums.x, sums.y, reciprocal), FinishPair(sums.z, sums.w, reciprocal));
    *reinterpret_cast<uint2*>(params.output + of.row * params.output_stride +
                              kv_head * arguments.group * kHeadDim + 4 * i) = pairs;
  }
}

// An unfinished part: the fold of its splits so far, in the layout of a MathWarp.
template <int kHeadDim, int kHalves>
struct DecodePart {
  static constexpr int kColumnSteps = MathWarp<kHeadDim, kHalves>::kColumnSteps;

  // Folds in the split that `math` has attended to.
  template <KvType kType>
  __device__ __forceinline__ void Extend(const MathWarp<kHeadDim, kHalves, kType>& math, bool opens,
                                         float exponent_scale) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const SoftmaxRow open = {math.rows[half].reference, SumOverQuad(math.rows[half].sum)};
      SoftmaxRow& closed = rows[half];
      const PartialFold fold(closed.reference, open.reference, exponent_scale);
      closed = opens ? open : SoftmaxRow{fold.reference, fold(closed.sum, open.sum)};
#pragma unroll
      for (int i = 0; i < kColumnSteps; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float& sum = output[i][j / 2][2 * half + j % 2];
          const float more = math.output[i][j / 2][2 * half + j % 2];
          sum = opens ? more : fold(sum, more);
        }
      }
    }
  }

  SoftmaxRow rows[kHalves];
  float output[kColumnSteps][2][4];
};

// What the math warps remember of an item while they attend to its keys.
template <bool kShared>
struct MathItem {
  // Row `row` of the matrix products is one head of one row of the item. Row returns that row, and
  // Head returns the head's number among those of the KV head.
  __device__ __forceinline__ int Row(int row, int group) const {
    if constexpr (!kShared) return at.row;
    return __shfl_sync(0xFFFFFFFFu, at.row, min(row / group, item.num_rows - 1));
  }
  __device__ __forceinline__ static int Head(int row, int group) {
    return kShared ? row % group : row;
  }

  // True if the item has one row and one part.
  __device__ __forceinline__ bool IsOnePart() const {
    if constexpr (!kShared) return at.num_parts == 1;
    return item.num_rows == 1 && __shfl_sync(0xFFFFFFFFu, at.num_parts, 0) == 1;
  }

  DecodeItem item;
  DecodeItemRow at;  // the item's row; if items may have several rows, lane i has row i
};

// Writes the output of a row that has only one part.
template <int kHeadDim, int kHalves, bool kShared, KvType kType>
__device__ __forceinline__ void WriteOutput(const DecodeArguments& arguments,
                                            const MathItem<kShared>& work,
                                            const MathWarp<kHeadDim, kHalves, kType>& math,
                                            const DecodePart<kHeadDim, kHalves>& part) {
  const int group = arguments.group;
  float reciprocals[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half) reciprocals[half] = __frcp_rn(part.rows[half].sum);
  BFloat16* output = arguments.params.output + work.Row(0, group) * arguments.params.output_stride +
                     work.item.kv_head * group * kHeadDim;
  math.ForColumns(group, [&](int half, int row, int column, int i, int n) {
    *reinterpret_cast<uint32_t*>(output + row * kHeadDim + column) =
        FinishPair(part.output[i][n][2 * half], part.output[i][n][2 * half + 1], reciprocals[half]);
  });
}

// Writes this part of the item's rows.
template <int kHeadDim, int kHalves, bool kShared, KvType kType>
__device__ __forceinline__ void WritePart(const DecodeArguments& arguments,
                                          const MathItem<kShared>& work,
                                          const MathWarp<kHeadDim, kHalves, kType>& math,
                                          const DecodePart<kHeadDim, kHalves>& part) {
  const int group = arguments.group;
  const int num_rows = kShared ? work.item.num_rows * group : group;
  float* partials[kHalves];
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    partials[half] = Partial<kHeadDim>(arguments, work.Row(math.lane / 4 + 8 * half, group),
                                       work.item.part, work.item.kv_head);
  }
  math.ForColumns(num_rows, [&](int half, int row, int column, int i, int n) {
    float* const to = partials[half] + work.Head(row, group) * kHeadDim + column;
    *reinterpret_cast<float2*>(to) =
        make_float2(part.output[i][n][2 * half], part.output[i][n][2 * half + 1]);
  });
  if (math.warp != 0 || math.lane % 4 != 0) return;
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int row = math.lane / 4 + 8 * half;
    if (row < num_rows) {
      float* const to = partials[half] + group * kHeadDim + 2 * work.Head(row, group);
      *reinterpret_cast<float2*>(to) = make_float2(part.rows[half].reference, part.rows[half].sum);
    }
  }
}

}  // namespace lockstep::kernels
