#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/embedding/gather_rows.h"
#include "kernels/norm/row_norm.cuh"

namespace lockstep::kernels {

// The weights of the next norm in shared memory. The consumers that do not multiply fetch them
// while an earlier product goes on.
template <typename Form>
struct NormWeights {
  // Call when nobody reads the previous norm's weights any more. `biases`: LayerNorm only.
  __device__ __forceinline__ void Fetch(const float* weights, const float* biases) const {
    const int thread = static_cast<int>(threadIdx.x) - 32 * kProductWarps;
    if (thread < 0) return;
    constexpr int kAtOnce = 4;
#pragma unroll 1
    for (int i = thread * kAtOnce; i < block.Hidden();
         i += (kConsumerThreads - 32 * kProductWarps) * kAtOnce) {
      const uint32_t to = block.address + block.Memory().norm_weights + i * 4;
      ptx::CopyAsync16(to, weights + i);
      if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
        ptx::CopyAsync16(to + block.Hidden() * 4, biases + i);
      }
    }
    ptx::CopyAsyncCommit();
  }
  // Call before a barrier of the consumers. After the barrier the weights are there.
  __device__ __forceinline__ void Finish() const {
    if (static_cast<int>(threadIdx.x) >= 32 * kProductWarps) ptx::CopyAsyncWait<0>();
  }

  const LayersBlock<Form>& block;
};

// The residual rows that a block keeps in shared memory, and their norm, which is the input of
// products. Used by all consumers.
template <typename Form>
class ResidualNorm {
 public:
  __device__ ResidualNorm(const LayersBlock<Form>& block, int warp)
      : block_(block), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  // If is_first, the residual becomes the embeddings. Otherwise adds the words at `delta` to the
  // residual, and rounds. Then computes the norm.
  __device__ __forceinline__ void NormRows(bool is_first, const uint64_t* delta, uint32_t tag) {
    const int row_words = static_cast<int>(NormRow::Words(block_.Hidden()));
    NormWith([&](int row, int group, bool exists) {
      uint4 words = {};
      if (is_first) {
        if (!exists) return words;
        words = Embedding(row, group);
        ResidualGroup(row, group) = words;
        return words;
      }
      const uint64_t* const first_pair =
          delta + row * row_words + NormRow::Offset(group * NormRow::kGroupWords);
      const uint64_t* const from[2] = {exists ? first_pair : nullptr,
                                       exists ? first_pair + NormRow::kSecondHalf : nullptr};
      LoadTaggedPairs<2>(tag, from, [&](int i, uint32_t first, uint32_t second) {
        (i == 0 ? words.x : words.z) = first;
        (i == 0 ? words.y : words.w) = second;
      });
      if (!exists) return words;
      const uint4 sum = Sum(ResidualGroup(row, group), words);
      ResidualGroup(row, group) = sum;
      return sum;
    });
  }

  // Copies the norm's result to the caller's memory.
  __device__ __forceinline__ void StoreNormed() const {
    const int group = static_cast<int>(threadIdx.x);
    if (group >= NumGroups()) return;
    for (int row = 0; row < block_.NumRows(); ++row) {
      reinterpret_cast<uint4*>(block_.Params().output +
                               row * block_.Params().shape.hidden_size)[group] =
          NormedGroup(row, group);
    }
  }

 private:
  // A thread has kRowGroup elements of a row, or none.
  __device__ __forceinline__ int NumGroups() const { return block_.Hidden() / kRowGroup; }

  __device__ __forceinline__ uint4& ResidualGroup(int row, int group) const {
    return *block_.template At<uint4>(block_.Memory().residual +
                                      row * block_.Memory().hidden_row_bytes + group * 16);
  }

  __device__ __forceinline__ uint4& NormedGroup(int row, int group) const {
    return *block_.template At<uint4>(block_.Memory().normed +
                                      InputRows::Offset(group, row, block_.NumRows()));
  }

  __device__ __forceinline__ uint4 Embedding(int row, int group) const {
    const DecodeLayersParams& params = block_.Params();
    const uint4 token =
        TableGroup(params.token_embeddings, params.vocab_size, params.token_ids[row], group);
    if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
      if (params.position_embeddings != nullptr) {
        return Sum(token, TableGroup(params.position_embeddings, params.max_positions,
                                     params.positions[row], group));
      }
    }
    return token;
  }
  __device__ __forceinline__ uint4 TableGroup(const BFloat16* table, int64_t num_rows,
                                              uint32_t index, int group) const {
    if (index == kNoRow) return {};
    if (index >= num_rows) __trap();
    return reinterpret_cast<const uint4*>(table + index * block_.Params().shape.hidden_size)[group];
  }

  __device__ __forceinline__ static uint4 Sum(const uint4& residual, const uint4& delta) {
    float values[kRowGroup];
    float added[kRowGroup];
    Unpack(residual, values);
    Unpack(delta, added);
    for (int i = 0; i < kRowGroup; ++i) values[i] = __fadd_rn(values[i], added[i]);
    return Pack(values);
  }

  // load(row, group, exists) returns the residual's elements. Whole warps call it. The sums follow
  // the balanced tree of rms_norm.h.
  template <typename Load>
  __device__ __forceinline__ void NormWith(const Load& load) {
    const int group = static_cast<int>(threadIdx.x);
    const bool exists = group < NumGroups();
    const bool warp_has_any = warp_ * 32 < NumGroups();
    const float size = static_cast<float>(block_.Hidden());
    const float* const weights = block_.template At<float>(block_.Memory().norm_weights);
    for (int row = 0; row < block_.NumRows(); ++row) {
      float values[kRowGroup] = {};
      if (warp_has_any) Unpack(load(row, group, exists), values);
      NormWeights<Form>{block_}.Finish();
      float squares = 0.0f;
      if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
        const float mean = __fdiv_rn(TreeSum(GroupTreeSum(values), 0), size);
        if (exists) {
          for (int i = 0; i < kRowGroup; ++i) values[i] = __fsub_rn(values[i], mean);
        }
        squares = TreeSum(SumOfSquares(values), 1);
      } else {
        squares = TreeSum(SumOfSquares(values), row % 2);
      }
      if (!exists) continue;
      const float inverse_rms = DeviceInverseRms(squares, size, block_.Params().norm_eps);
      float parameters[kRowGroup];
      LoadParameters(weights, group, parameters);
      for (int i = 0; i < kRowGroup; ++i) {
        values[i] = DeviceNormedValue(values[i], inverse_rms, parameters[i]);
      }
      if constexpr (Form::kStyle == DecoderStyle::kGpt2) {
        LoadParameters(weights + block_.Hidden(), group, parameters);
        for (int i = 0; i < kRowGroup; ++i) values[i] = __fadd_rn(values[i], parameters[i]);
      }
      NormedGroup(row, group) = Pack(values);
    }
  }

  __device__ __forceinline__ static float SumOfSquares(const float (&values)[kRowGroup]) {
    float squares[kRowGroup];
    for (int i = 0; i < kRowGroup; ++i) squares[i] = __fmul_rn(values[i], values[i]);
    return GroupTreeSum(squares);
  }

  // The sum over the consumers, in ascending order of threads. There must be a barrier of the
  // consumers between two calls with the same `turn`.
  __device__ __forceinline__ float TreeSum(float sum, int turn) const {
    for (int distance = 1; distance < 32; distance *= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
    }
    float* const warp_sums =
        block_.template At<float>(block_.Memory().warp_sums) + turn * kConsumerWarps;
    if (lane_ == 0) warp_sums[warp_] = sum;
    SyncConsumers();
    static_assert(kConsumerWarps == 8);
    const float4 first = *reinterpret_cast<const float4*>(warp_sums);
    const float4 second = *reinterpret_cast<const float4*>(warp_sums + 4);
    const auto sum_of_four = [](const float4& sums) {
      return __fadd_rn(__fadd_rn(sums.x, sums.y), __fadd_rn(sums.z, sums.w));
    };
    return __fadd_rn(sum_of_four(first), sum_of_four(second));
  }

  const LayersBlock<Form> block_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
