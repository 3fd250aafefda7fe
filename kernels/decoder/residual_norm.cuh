#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/norm/row_norm.cuh"

namespace lockstep::kernels {

inline constexpr int kMaxGroups = 2;  // of kRowGroup elements that a thread has of a row

// By all consumers: the residual rows that a block keeps in shared memory, and their RMSNorm, which
// is the input of the products.
template <int kHeadDim>
class ResidualNorm {
 public:
  // tag: of the layer at hand.
  __device__ ResidualNorm(const LayersBlock<kHeadDim>& block, uint32_t tag)
      : block_(block),
        tag_(tag),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ void NormEmbeddings(const float* weight) {
    NormWith(weight, [&](int row, int group) {
      const uint4 words = reinterpret_cast<const uint4*>(
          block_.Params().embeddings + row * block_.Params().shape.hidden_size)[group];
      ResidualGroup(row, group) = words;
      return words;
    });
  }

  // Adds what the words say to the residual, rounds, and norms.
  __device__ __forceinline__ void NormRows(int64_t delta, uint32_t tag, const float* weight) {
    const int row_words = block_.Hidden() / 2;
    NormWith(weight, [&](int row, int group) {
      uint4 words = {};
      const uint64_t* const from = block_.Words(delta) + row * row_words + group * 4;
      LoadTaggedPairs<2>(
          tag, [&](int i) { return from + 2 * i; },
          [&](int i, uint32_t first, uint32_t second) {
            (i == 0 ? words.x : words.z) = first;
            (i == 0 ? words.y : words.w) = second;
          });
      float added[kRowGroup];
      float values[kRowGroup];
      Unpack(words, added);
      Unpack(ResidualGroup(row, group), values);
      for (int i = 0; i < kRowGroup; ++i) values[i] = __fadd_rn(values[i], added[i]);
      const uint4 sum = Pack(values);
      ResidualGroup(row, group) = sum;
      return sum;
    });
  }

  __device__ __forceinline__ void StoreResidual() const {
    const int num_groups = block_.Hidden() / kRowGroup;
    const int groups = num_groups > kConsumerThreads ? kMaxGroups : 1;
    for (int row = 0; row < block_.NumRows(); ++row) {
      for (int j = 0; j < groups; ++j) {
        const int group = static_cast<int>(threadIdx.x) * groups + j;
        if (group >= num_groups) break;
        reinterpret_cast<uint4*>(block_.Params().residual +
                                 row * block_.Params().shape.hidden_size)[group] =
            ResidualGroup(row, group);
      }
    }
  }

 private:
  __device__ __forceinline__ uint4& ResidualGroup(int row, int group) const {
    return *reinterpret_cast<uint4*>(block_.shared + block_.Memory().residual +
                                     row * block_.Memory().hidden_row_bytes + group * 16);
  }

  // load(row, group) gives the residual's elements; a thread has neighbouring groups. The sum of
  // squares goes along the balanced tree of rms_norm.h.
  template <typename Load>
  __device__ __forceinline__ void NormWith(const float* weight, const Load& load) {
    const int num_groups = block_.Hidden() / kRowGroup;
    const int groups = num_groups > kConsumerThreads ? kMaxGroups : 1;
    const int first_group = static_cast<int>(threadIdx.x) * groups;
    float weights[kMaxGroups][kRowGroup] = {};
#pragma unroll
    for (int j = 0; j < kMaxGroups; ++j) {
      if (j < groups && first_group + j < num_groups) {
        LoadParameters(weight, first_group + j, weights[j]);
      }
    }
    for (int row = 0; row < block_.NumRows(); ++row) {
      float values[kMaxGroups][kRowGroup] = {};
      float sums[kMaxGroups];
#pragma unroll
      for (int j = 0; j < kMaxGroups; ++j) {
        if (j < groups && first_group + j < num_groups) {
          Unpack(load(row, first_group + j), values[j]);
        }
        float squares[kRowGroup];
        for (int i = 0; i < kRowGroup; ++i) squares[i] = __fmul_rn(values[j][i], values[j][i]);
        sums[j] = GroupTreeSum(squares);
      }
      const float sum = TreeSum(groups == 1 ? sums[0] : __fadd_rn(sums[0], sums[1]), row % 2);
      const float inverse_rms =
          DeviceInverseRms(sum, static_cast<float>(block_.Hidden()), block_.Params().norm_eps);
#pragma unroll
      for (int j = 0; j < kMaxGroups; ++j) {
        if (j >= groups || first_group + j >= num_groups) continue;
        for (int i = 0; i < kRowGroup; ++i) {
          values[j][i] = DeviceNormedValue(values[j][i], inverse_rms, weights[j][i]);
        }
        *reinterpret_cast<uint4*>(block_.shared + block_.Memory().normed +
                                  row * block_.Memory().hidden_row_bytes + (first_group + j) * 16) =
            Pack(values[j]);
      }
    }
  }

  // Over the consumers, in ascending order of threads. Calls with the same `turn` have a barrier of
  // the consumers between them.
  __device__ __forceinline__ float TreeSum(float sum, int turn) const {
    for (int distance = 1; distance < 32; distance *= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
    }
    float* const warp_sums =
        reinterpret_cast<float*>(block_.shared + block_.Memory().warp_sums) + turn * kConsumerWarps;
    if (lane_ == 0) warp_sums[warp_] = sum;
    SyncConsumers();
    sum = lane_ < kConsumerWarps ? warp_sums[lane_] : 0.0f;
    for (int distance = 1; distance < kConsumerWarps; distance *= 2) {
      sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, distance));
    }
    return __shfl_sync(0xFFFFFFFFu, sum, 0);
  }

  const LayersBlock<kHeadDim> block_;
  const uint32_t tag_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
