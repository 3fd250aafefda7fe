#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/decoder/weight_ring.cuh"

namespace lockstep::kernels {

inline constexpr int kReadAtOnce = 4;  // pairs of words that a thread requests together

// The products of a layer: reads the inputs from words and the weights from their ring, and writes
// the outputs into words. Used by all consumers.
template <int kHeadDim, DecoderStyle kStyle>
class LayerProducts {
 public:
  // tag: of the current layer. position: how far the block has come with its weights; must outlive
  // the object.
  __device__ LayerProducts(const LayersBlock<kHeadDim>& block, uint32_t tag,
                           StagePosition& position)
      : block_(block),
        tag_(tag),
        position_(position),
        warp_(ptx::WarpUniform(static_cast<int>(threadIdx.x) / 32)),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ InputRows Normed() const {
    return {block_.address + block_.Memory().normed, block_.NumRows()};
  }
  __device__ __forceinline__ InputRows Wide() const {
    return {block_.address + block_.Memory().wide, block_.NumRows()};
  }

  // Multiplies the input and writes the outputs into their words. The outputs of the last layer's
  // MLP go to the caller's memory.
  __device__ __forceinline__ void Multiply(const BlockProduct& product, const InputRows& input,
                                           const float* bias, bool is_mlp_input,
                                           bool is_last_of_all) {
    if (warp_ >= kProductWarps) return;
    const int num_tiles = ptx::WarpUniform(product.num_tiles);
    const int pass_tiles = ptx::WarpUniform(product.pass_tiles);
    for (int first = 0; first < num_tiles; first += pass_tiles) {
      // The biases are requested early, so that they are there when they are needed.
      float biases[2] = {};
      if constexpr (kStyle == DecoderStyle::kGpt2) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int tile = first + 2 * warp_ + i;
          if (2 * warp_ + i >= product.pass_tiles || tile >= product.num_tiles) continue;
          biases[i] = bias[product.FirstOutput(tile) + lane_ / 4];
        }
      }
      const PassSums sums = block_.Ring().MultiplyPass(product, input, position_);
      if (kStyle == DecoderStyle::kLlama && product.halves == 2) {
        // Waits until the sums of the previous pass have been read.
        if (first > 0) ptx::SyncThreads(kProductBarrier, 32 * kProductWarps);
        HandOverUp(product, sums);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int slot = 2 * warp_ + i / 2;
        const int tile = first + slot;
        if (slot >= product.pass_tiles || tile >= product.num_tiles || i % 2 >= input.num_rows) {
          continue;
        }
        const int row = lane_ % 4 * 2 + i % 2;
        const int column = product.FirstOutput(tile) + lane_ / 4;
        float value = kStyle == DecoderStyle::kGpt2 ? __fadd_rn(sums.values[i], biases[i / 2])
                                                    : Biased(sums.values[i], bias, column);
        if constexpr (kStyle == DecoderStyle::kGpt2) {
          // GELU sees a rounded value.
          if (is_mlp_input) value = DeviceGeluTanh(DeviceToFloat(DeviceToBFloat16(value)));
        } else if (product.halves == 2) {
          const float up = Biased(UpSums(slot)[i % 2], bias, product.outputs + column);
          // SwiGLU sees rounded values.
          value = DeviceGatedValue(DeviceToFloat(DeviceToBFloat16(value)),
                                   DeviceToFloat(DeviceToBFloat16(up)));
        }
        const uint32_t pair = PackBFloat16x2(value, __shfl_down_sync(0xFFFFFFFFu, value, 4));
        if (lane_ / 4 % 2 != 0 || row >= input.num_rows) continue;
        const int word = (row * product.outputs + column) / 2;
        if (is_last_of_all) {
          reinterpret_cast<uint32_t*>(block_.Params().delta)[word] = pair;
        } else {
          StoreTagged(block_.Words(product.to) + word, pair, tag_);
        }
      }
    }
  }

  // Copies the input of the attention's or the MLP's output projection from its words to shared
  // memory.
  __device__ __forceinline__ void ReadWide(const BlockProduct& product) const {
    const int row_pairs = product.inputs / 4;
    const int num_pairs = block_.NumRows() * row_pairs;
    const uint64_t* const words = block_.Words(product.from);
    for (int base = 32 * warp_; base < num_pairs; base += kReadAtOnce * kConsumerThreads) {
      const uint64_t* pairs[kReadAtOnce];
#pragma unroll
      for (int i = 0; i < kReadAtOnce; ++i) {
        const int pair = base + lane_ + i * kConsumerThreads;
        pairs[i] = pair < num_pairs ? words + 2 * pair : nullptr;
      }
      LoadTaggedPairs(tag_, pairs, [&](int i, uint32_t first, uint32_t second) {
        const int pair = base + lane_ + i * kConsumerThreads;
        const int row = pair / row_pairs;
        const int column_pair = pair - row * row_pairs;
        *reinterpret_cast<uint2*>(block_.shared + block_.Memory().wide +
                                  InputRows::Offset(column_pair / 2, row, block_.NumRows()) +
                                  column_pair % 2 * 8) = make_uint2(first, second);
      });
    }
    ptx::FenceAsyncProxy();
  }

 private:
  __device__ __forceinline__ static float Biased(float sum, const float* bias, int column) {
    return bias == nullptr ? sum : __fadd_rn(sum, bias[column]);
  }

  // This lane's two sums of the tile of up that belongs to tile `tile` of the gate.
  __device__ __forceinline__ float* UpSums(int tile) const {
    return reinterpret_cast<float*>(block_.shared + block_.Memory().up_sums) +
           2 * (32 * tile + lane_);
  }
  // Hands sums from the warps that have the sums of up to the warps that have the sums of the gate.
  __device__ __forceinline__ void HandOverUp(const BlockProduct& product,
                                             const PassSums& sums) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = 2 * warp_ + i / 2 - product.pass_tiles;
      if (0 <= tile && tile < product.pass_tiles) UpSums(tile)[i % 2] = sums.values[i];
    }
    ptx::SyncThreads(kProductBarrier, 32 * kProductWarps);
  }

  const LayersBlock<kHeadDim> block_;
  const uint32_t tag_;
  StagePosition& position_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
