#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/embedding/gather_rows.h"
#include "kernels/norm/row_norm.cuh"

namespace lockstep::kernels {

// The weights of the next norm in shared memory. The consumers that do not multiply fetch them
// while an earlier product goes on.
template <typename Form>
struct NormWeights {
  // Call when no thread reads the previous norm's weights any more. `biases`: LayerNorm only.
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
// residual_norm_sums.cuh has the members that are only declared here.
template <typename Form>
class ResidualNorm {
 public:
  __device__ ResidualNorm(const LayersBlock<Form>& block, int warp)
      : block_(block), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  // If is_first, the residual becomes the embeddings. Otherwise adds the words at `delta` to the
  // residual, and rounds. Then computes the norm.
  __device__ __forceinline__ void NormRows(bool is_first, const uint64_t* delta, uint32_t tag) {
    const int group = static_cast<int>(threadIdx.x);
    const bool exists = group < NumGroups();
    Rows rows = {};
    if (warp_ * 32 >= NumGroups()) {
      // This warp has nothing of the rows.
    } else if (is_first) {
      if (exists) ReadEmbeddings(group, rows);
    } else {
      AddDelta(delta, tag, group, rows);
    }
    Norm(group, rows);
  }

  // Copies the norm's result to the caller's memory.
  __device__ __forceinline__ void StoreNormed() const {
    const int group = static_cast<int>(threadIdx.x);
    if (group >= NumGroups()) return;
    for (int row = 0; row < kRows; ++row) {
      reinterpret_cast<uint4*>(block_.Params().output +
                               row * block_.Params().shape.hidden_size)[group] =
          NormedGroup(row, group);
    }
  }

 private:
  static constexpr int kRows = Form::kRows;
  using Rows = float[kRows][kRowGroup];  // a thread's elements of each row

  // A thread has kRowGroup elements of a row, or none.
  __device__ __forceinline__ int NumGroups() const { return block_.Hidden() / kRowGroup; }

  __device__ __forceinline__ uint4& ResidualGroup(int row, int group) const {
    return *block_.template At<uint4>(block_.Memory().residual +
                                      row * block_.Memory().hidden_row_bytes + group * 16);
  }

  __device__ __forceinline__ uint4& NormedGroup(int row, int group) const {
    return *block_.template At<uint4>(block_.Memory().normed +
                                      InputRows::Offset(group, row, kRows));
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

  __device__ __forceinline__ void ReadEmbeddings(int group, Rows& rows) const {
    uint4 words[kRows];
#pragma unroll
    for (int row = 0; row < kRows; ++row) words[row] = Embedding(row, group);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      ResidualGroup(row, group) = words[row];
      Unpack(words[row], rows[row]);
    }
  }

  // Whole warps call it.
  __device__ __forceinline__ void AddDelta(const uint64_t* delta, uint32_t tag, int group,
                                           Rows& rows) const {
    const int row_words = static_cast<int>(NormRow::Words(block_.Hidden()));
    const bool exists = group < NumGroups();
    const uint64_t* from[2 * kRows];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const uint64_t* const words =
          delta + row * row_words + NormRow::Offset(group * NormRow::kGroupWords);
      from[2 * row] = exists ? words : nullptr;
      from[2 * row + 1] = exists ? words + NormRow::kSecondHalf : nullptr;
    }
    uint4 words[kRows] = {};
    LoadTaggedPairs<2 * kRows>(tag, from, [&](int i, uint32_t first, uint32_t second) {
      (i % 2 == 0 ? words[i / 2].x : words[i / 2].z) = first;
      (i % 2 == 0 ? words[i / 2].y : words[i / 2].w) = second;
    });
    if (!exists) return;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const uint4 sum = Sum(ResidualGroup(row, group), words[row]);
      ResidualGroup(row, group) = sum;
      Unpack(sum, rows[row]);
    }
  }

  // All consumers call it. The sums follow the balanced tree of rms_norm.h.
  __device__ __forceinline__ void Norm(int group, Rows& rows) const;

  __device__ __forceinline__ static float SumOfSquares(const float (&values)[kRowGroup]);

  // The sums over the consumers, in ascending order of threads. There must be a barrier of the
  // consumers between two calls with the same `turn`.
  __device__ __forceinline__ void TreeSums(float (&sums)[kRows], int turn) const;

  const LayersBlock<Form> block_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
