#pragma once

#include "kernels/attention/prefill/prefill_group.cuh"

// What a warpgroup of PrefillGroup does with its output: closed splits, and the result.
namespace lockstep::kernels {

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::PrepareOutput() {
  if (before_ == Before::kClose) {
    Close();
  } else if (before_ == Before::kRescale) {
    Rescale(rescale_, output_);
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Finish() {
  PrepareOutput();
  AwaitValues();
  ptx::WarpgroupFence();
  IssueValues();
  ptx::WarpgroupWait<0>();
  ptx::HoldTiles(output_);
  ptx::HoldOperand(weights_);
  ReleaseValues();
  float sums[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) sums[half] = SumOverQuad(open_[half].sum);
  if (split_ > 0) {
    SoftmaxRow closed[2];
    Gather(closed_, closed);
    const PartialFold folds[2] = {
        PartialFold(closed[0].reference, open_[0].reference, arguments_.exponent_scale),
        PartialFold(closed[1].reference, open_[1].reference, arguments_.exponent_scale)};
#pragma unroll
    for (int half = 0; half < 2; ++half) sums[half] = folds[half](closed[half].sum, sums[half]);
    ForClosed([&](int n, float4 closed_tile) {
      const float4 folded = FoldTile<false>(folds, closed_tile, output_[n]);
      output_[n][0] = folded.x;
      output_[n][1] = folded.y;
      output_[n][2] = folded.z;
      output_[n][3] = folded.w;
    });
  }
  Write(sums);
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Close() {
  if (split_ == 0) {
    closed_ = closing_;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      WriteClosed(n, make_float4(output_[n][0], output_[n][1], output_[n][2], output_[n][3]));
    }
  } else {
    SoftmaxRow closed[2];
    SoftmaxRow closing[2];
    Gather(closed_, closed);
    Gather(closing_, closing);
    const PartialFold folds[2] = {
        PartialFold(closed[0].reference, closing[0].reference, arguments_.exponent_scale),
        PartialFold(closed[1].reference, closing[1].reference, arguments_.exponent_scale)};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      closed[half] = {folds[half].reference, folds[half](closed[half].sum, closing[half].sum)};
    }
    closed_ = SpreadSummed(closed);
    ForClosed([&](int n, float4 closed_tile) {
      WriteClosed(n, FoldTile<true>(folds, closed_tile, output_[n]));
    });
  }
  next_border_ = static_cast<int>(AttentionSplitBegin(++split_ + 1));
}

template <int kHeadDim, int kGroups>
template <bool kFull>
__device__ __forceinline__ float4 PrefillGroup<kHeadDim, kGroups>::FoldTile(
    const PartialFold (&folds)[2], float4 closed, const float (&open)[4]) {
  return make_float4(folds[0].template Fold<kFull>(closed.x, open[0]),
                     folds[0].template Fold<kFull>(closed.y, open[1]),
                     folds[1].template Fold<kFull>(closed.z, open[2]),
                     folds[1].template Fold<kFull>(closed.w, open[3]));
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ float PrefillGroup<kHeadDim, kGroups>::SpreadSummed(
    const SoftmaxRow (&rows)[2]) const {
  const float first = lane_ % 2 == 0 ? rows[0].reference : rows[0].sum;
  const float second = lane_ % 2 == 0 ? rows[1].reference : rows[1].sum;
  return lane_ % 4 < 2 ? first : second;
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ float PrefillGroup<kHeadDim, kGroups>::Spread(
    const SoftmaxRow (&rows)[2]) const {
  return SpreadSummed({{rows[0].reference, SumOverQuad(rows[0].sum)},
                       {rows[1].reference, SumOverQuad(rows[1].sum)}});
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Gather(float spread,
                                                                        SoftmaxRow (&rows)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    rows[half] = {__shfl_sync(0xFFFFFFFFu, spread, 2 * half, 4),
                  __shfl_sync(0xFFFFFFFFu, spread, 2 * half + 1, 4)};
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ float4& PrefillGroup<kHeadDim, kGroups>::Closed(int n) const {
  if (n < kSharedClosedTiles) {
    return reinterpret_cast<float4*>(shared_ + B::kClosed)[n * B::kComputeThreads + threadIdx.x];
  }
  const int tile = blockIdx.x * (kTiles - kSharedClosedTiles) + n - kSharedClosedTiles;
  return reinterpret_cast<float4*>(
      arguments_.params.scratch)[tile * B::kComputeThreads + threadIdx.x];
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ float4 PrefillGroup<kHeadDim, kGroups>::ReadClosed(int n) const {
  if constexpr (B::kClosedInRegisters) {
    return make_float4(kept_[n][0], kept_[n][1], kept_[n][2], kept_[n][3]);
  } else {
    return Closed(n);
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::WriteClosed(int n, float4 closed) {
  if constexpr (B::kClosedInRegisters) {
    kept_[n][0] = closed.x;
    kept_[n][1] = closed.y;
    kept_[n][2] = closed.z;
    kept_[n][3] = closed.w;
  } else {
    Closed(n) = closed;
  }
}

template <int kHeadDim, int kGroups>
template <typename Body>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::ForClosed(const Body& body) const {
  constexpr int kBatch = B::kClosedInRegisters || kSharedClosedTiles == kTiles ? 1 : 8;
  static_assert(kTiles % kBatch == 0 && kSharedClosedTiles % kBatch == 0);
#pragma unroll
  for (int first = 0; first < kTiles; first += kBatch) {
    float4 batch[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) batch[i] = ReadClosed(first + i);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) body(first + i, batch[i]);
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::Write(const float (&sums)[2]) {
  const int t = lane_ % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float reciprocal = __frcp_rn(sums[half]);
    BFloat16* const output =
        arguments_.params.output + RowOffset(arguments_, rows_, min(Row(half), rows_.num_rows - 1),
                                             arguments_.params.output_stride);
#pragma unroll
    for (int n = 0; n < kTiles; n += 4) {
      uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pairs[i] = FinishPair(output_[n + i][2 * half], output_[n + i][2 * half + 1], reciprocal);
      }
      TransposeQuad(pairs, t);
      if (Row(half) < rows_.num_rows) {
        *reinterpret_cast<uint4*>(output + 8 * (n + t)) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      }
    }
  }
}

template <int kHeadDim, int kGroups>
__device__ __forceinline__ void PrefillGroup<kHeadDim, kGroups>::TransposeQuad(uint32_t (&pairs)[4],
                                                                               int t) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = (t & distance) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & distance) != 0) continue;
      const uint32_t sent = upper ? pairs[i] : pairs[i + distance];
      const uint32_t received = __shfl_xor_sync(0xFFFFFFFFu, sent, distance);
      pairs[i] = upper ? received : pairs[i];
      pairs[i + distance] = upper ? pairs[i + distance] : received;
    }
  }
}

}  // namespace lockstep::kernels
