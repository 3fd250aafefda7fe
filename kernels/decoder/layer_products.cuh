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
  __device__ LayerProducts(const LayersBlock<kHeadDim>& block, int warp, uint32_t tag,
                           StagePosition& position)
      : block_(block),
        tag_(tag),
        position_(position),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  // What a product can do before its input is there.
  template <LayerProduct kProduct>
  __device__ __forceinline__ OpenPass Open() const {
    const OpenPass pass = block_.Ring().Open(Input<kProduct>(), position_);
    if (Multiplies<kProduct>()) pass.WaitForFirstSlab();
    return pass;
  }

  // Multiplies the input and writes the outputs into their words. The outputs of the last layer's
  // MLP go to the caller's memory. Begins with a barrier of the consumers, behind which the input
  // is there.
  template <LayerProduct kProduct>
  __device__ __forceinline__ void Multiply(OpenPass pass, const float* bias, bool is_last_of_all) {
    if (!Multiplies<kProduct>()) {
      SyncConsumers();
      return;
    }
    const ProductPlan& product = block_.Product(kProduct);
    const int block = static_cast<int>(blockIdx.x);
    const int num_tiles = block_.NumTiles(kProduct);
    const int num_rows = block_.NumRows();
    for (int first = 0; first < num_tiles; first += product.pass_tiles) {
      // A warp has the sums of two neighbouring tiles: a tile of the gate and its tile of up, or
      // two tiles of outputs.
      constexpr bool kIsGated = kStyle == DecoderStyle::kLlama && kProduct == kMlpInput;
      constexpr int kTiles = kIsGated ? 1 : 2;
      const int last = min(first + product.pass_tiles, num_tiles);
      int column[kTiles];
      bool exists[kTiles];
      // The biases are requested early, so that they are there when they are needed.
      float biases[2] = {};
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const int tile = first + kTiles * warp_ + i;
        exists[i] = tile < last;
        column[i] = (product.FirstTile(block) + tile) * kTileOutputs + lane_ / 4;
        if (bias == nullptr || !exists[i]) continue;
        biases[i] = bias[column[i]];
        if constexpr (kIsGated) biases[1] = bias[product.outputs + column[i]];
      }
      const auto biased = [&](float sum, int i) {
        return bias == nullptr ? sum : __fadd_rn(sum, biases[i]);
      };
      if (first == 0) {
        SyncConsumers();
      } else {
        pass = Open<kProduct>();
      }
      const PassSums sums = WeightRing::MultiplyPass(product, pass);
      position_ = pass.position;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        if (!exists[i]) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (j >= num_rows) continue;
          const int row = lane_ % 4 * 2 + j;
          float value = biased(sums.values[2 * i + j], i);
          // GELU and SwiGLU see rounded values.
          if constexpr (kIsGated) {
            value = DeviceGatedValue(Rounded(value), Rounded(biased(sums.values[2 + j], 1)));
          } else if constexpr (kProduct == kMlpInput) {
            value = DeviceGeluTanh(Rounded(value));
          }
          const uint32_t pair = PackBFloat16x2(value, __shfl_down_sync(0xFFFFFFFFu, value, 4));
          if (lane_ / 4 % 2 != 0 || row >= num_rows) continue;
          const int word = column[i] / 2;
          if (kProduct == kMlpOutput && is_last_of_all) {
            reinterpret_cast<uint32_t*>(block_.Params().delta)[row * product.outputs / 2 + word] =
                pair;
          } else {
            StoreTagged(OutputWord<kProduct>(product, row, word), pair, tag_);
          }
        }
      }
    }
  }

  // Copies the input of the attention's or the MLP's output projection from its words to shared
  // memory.
  __device__ __forceinline__ void ReadWide(const ProductPlan& product) const {
    const int row_pairs = product.num_chunks * (kChunkColumns / 4);
    const int num_rows = block_.NumRows();
    const uint64_t* words = product.from;
    for (int row = 0; row < num_rows; ++row) {
      for (int base = 32 * warp_; base < row_pairs; base += kReadAtOnce * kConsumerThreads) {
        const uint64_t* pairs[kReadAtOnce];
#pragma unroll
        for (int i = 0; i < kReadAtOnce; ++i) {
          const int pair = base + lane_ + i * kConsumerThreads;
          pairs[i] = pair < row_pairs ? words + SpreadRow::Offset(2 * pair) : nullptr;
        }
        LoadTaggedPairs(tag_, pairs, [&](int i, uint32_t first, uint32_t second) {
          const int pair = base + lane_ + i * kConsumerThreads;
          *block_.template At<uint2>(block_.Memory().wide +
                                     InputRows::Offset(pair / 2, row, num_rows) + pair % 2 * 8) =
              make_uint2(first, second);
        });
      }
      words += SpreadRow::Words(2 * row_pairs);
    }
    ptx::FenceAsyncProxy();
  }

 private:
  // Where a word of the product's outputs lies. Those of q, k and v have few readers.
  template <LayerProduct kProduct>
  __device__ __forceinline__ static uint64_t* OutputWord(const ProductPlan& product, int row,
                                                         int word) {
    if constexpr (kProduct == kQkv) return product.to + row * product.outputs / 2 + word;
    constexpr bool kIsNormed = kProduct != kMlpInput;
    const int64_t row_words =
        kIsNormed ? NormRow::Words(product.outputs) : SpreadRow::Words(product.outputs / 2);
    return product.to + row * static_cast<int>(row_words) +
           (kIsNormed ? NormRow::Offset(word) : SpreadRow::Offset(word));
  }
  template <LayerProduct kProduct>
  __device__ __forceinline__ InputRows Input() const {
    constexpr bool kIsNormed = kProduct == kQkv || kProduct == kMlpInput;
    const int offset = kIsNormed ? block_.Memory().normed : block_.Memory().wide;
    return {block_.address + offset, block_.NumRows()};
  }
  // Whether this warp has a part in the product.
  template <LayerProduct kProduct>
  __device__ __forceinline__ bool Multiplies() const {
    return warp_ < kProductWarps && block_.NumTiles(kProduct) > 0;
  }
  __device__ __forceinline__ static float Rounded(float value) {
    return DeviceToFloat(DeviceToBFloat16(value));
  }

  const LayersBlock<kHeadDim> block_;
  const uint32_t tag_;
  StagePosition& position_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
