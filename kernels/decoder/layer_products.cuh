#pragma once

#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/tagged_words.cuh"
#include "kernels/decoder/weight_ring.cuh"

namespace lockstep::kernels {

inline constexpr int kReadAtOnce = 4;  // pairs of words that a thread requests together

// By all consumers: the inputs of a product out of words, the product out of the ring of weights,
// the outputs into words.
template <int kHeadDim>
class LayerProducts {
 public:
  // tag: of the layer at hand. position: how far the block has come with its weights; outlives the
  // object.
  __device__ LayerProducts(const LayersBlock<kHeadDim>& block, uint32_t tag,
                           StagePosition& position)
      : block_(block),
        tag_(tag),
        position_(position),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ __forceinline__ InputRows Normed() const {
    return {block_.address + block_.Memory().normed, block_.Memory().hidden_row_bytes,
            block_.NumRows(), block_.address + block_.Memory().zero, lane_};
  }
  __device__ __forceinline__ InputRows Wide() const {
    return {block_.address + block_.Memory().wide, block_.Memory().wide_row_bytes, block_.NumRows(),
            block_.address + block_.Memory().zero, lane_};
  }

  template <int kHalves, typename Store>
  __device__ __forceinline__ void Multiply(const BlockProduct& product, const InputRows& input,
                                           const Store& store) {
    const WeightRing ring = block_.Ring();
    const int group = ring.GroupTiles(kHalves);
    for (int first = 0; first < product.num_tiles; first += group) {
      const int stride = min(group, product.num_tiles - first) * kHalves;
      if (warp_ * kHalves < stride) {
        StagePosition mine = position_;
        mine.Advance(warp_ * kHalves, ring.num_stages);
        TileProduct<kHalves> tile(ring, mine, stride, input, lane_);
        store(first + warp_, tile.Run(product.inputs));
      }
      position_.Skip(stride * product.num_slabs, ring.num_stages);
    }
  }

  __device__ __forceinline__ void StoreProduct(const BlockProduct& product, const float* bias,
                                               int tile, const TileSums<1>& sums,
                                               int64_t to) const {
    const Outputs outputs = LaneOutputs(product, bias, tile, sums.values[0]);
    if (outputs.row >= block_.NumRows()) return;
    StoreTagged(block_.Words(to) + (outputs.row * product.outputs + outputs.column) / 2,
                PackBFloat16x2(outputs.first, outputs.second), tag_);
  }

  __device__ __forceinline__ void StoreDelta(const BlockProduct& product, const float* bias,
                                             int tile, const TileSums<1>& sums) const {
    const Outputs outputs = LaneOutputs(product, bias, tile, sums.values[0]);
    if (outputs.row >= block_.NumRows()) return;
    reinterpret_cast<uint32_t*>(
        block_.Params().delta)[(outputs.row * block_.Hidden() + outputs.column) / 2] =
        PackBFloat16x2(outputs.first, outputs.second);
  }

  // SwiGLU sees rounded values.
  __device__ __forceinline__ void StoreGated(const BlockProduct& product, const float* bias,
                                             int tile, const TileSums<2>& sums) const {
    const Outputs gate = LaneOutputs(product, bias, tile, sums.values[0]);
    const Outputs up = LaneOutputs(product, bias == nullptr ? nullptr : bias + product.outputs,
                                   tile, sums.values[1]);
    if (gate.row >= block_.NumRows()) return;
    const auto gated = [](float gate_value, float up_value) {
      return DeviceGatedValue(DeviceToFloat(DeviceToBFloat16(gate_value)),
                              DeviceToFloat(DeviceToBFloat16(up_value)));
    };
    StoreTagged(
        block_.Words(block_.Offsets().activated) + (gate.row * product.outputs + gate.column) / 2,
        PackBFloat16x2(gated(gate.first, up.first), gated(gate.second, up.second)), tag_);
  }

  // Rows of `row_words` words, to the input of the attention's or the MLP's output projection.
  __device__ __forceinline__ void ReadWide(int64_t from, int row_words) const {
    const int row_pairs = row_words / 2;
    const int num_pairs = block_.NumRows() * row_pairs;
    for (int base = threadIdx.x; base < num_pairs; base += kReadAtOnce * kConsumerThreads) {
      LoadTaggedPairs<kReadAtOnce>(
          tag_,
          [&](int i) -> const uint64_t* {
            const int pair = base + i * kConsumerThreads;
            return pair < num_pairs ? block_.Words(from) + 2 * pair : nullptr;
          },
          [&](int i, uint32_t first, uint32_t second) {
            const int pair = base + i * kConsumerThreads;
            const int row = pair / row_pairs;
            *reinterpret_cast<uint2*>(block_.shared + block_.Memory().wide +
                                      row * block_.Memory().wide_row_bytes +
                                      (pair - row * row_pairs) * 8) = make_uint2(first, second);
          });
    }
  }

 private:
  // The two outputs of this lane, with their bias, and its input row.
  struct Outputs {
    int row;
    int column;
    float first;
    float second;
  };
  __device__ __forceinline__ Outputs LaneOutputs(const BlockProduct& product, const float* bias,
                                                 int tile, const float (&sums)[4]) const {
    Outputs outputs = {lane_ / 4, product.FirstOutput(tile) + lane_ % 4 * 2, sums[0], sums[1]};
    if (bias != nullptr) {
      outputs.first = __fadd_rn(outputs.first, bias[outputs.column]);
      outputs.second = __fadd_rn(outputs.second, bias[outputs.column + 1]);
    }
    return outputs;
  }

  const LayersBlock<kHeadDim> block_;
  const uint32_t tag_;
  StagePosition& position_;
  const int warp_;
  const int lane_;
};

}  // namespace lockstep::kernels
