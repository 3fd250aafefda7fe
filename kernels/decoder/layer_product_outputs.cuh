#pragma once

#include "kernels/decoder/layer_products.cuh"

// Where LayerProducts writes the outputs of a pass, and how.
namespace lockstep::kernels {

template <typename Form>
template <LayerProduct kProduct>
__device__ __forceinline__ typename LayerProducts<Form>::PassOutputs LayerProducts<Form>::OutputsOf(
    const ProductPlan& product, int first, const float* bias) const {
  const int last = min(first + product.pass_tiles, product.NumTiles(static_cast<int>(blockIdx.x)));
  PassOutputs outputs = {.row_words = RowWords<kProduct>(product)};
  ptx::ComputeNow(outputs.row_words);
#pragma unroll
  for (int i = 0; i < kTiles<kProduct>; ++i) {
    const int tile = first + kTiles<kProduct> * warp_ + i;
    const int column =
        (product.FirstTile(static_cast<int>(blockIdx.x)) + tile) * kTileOutputs + lane_ / 4;
    outputs.exists[i] = tile < last;
    outputs.to[i] =
        product.to + lane_ % 4 * 2 * outputs.row_words + WordOffset<kProduct>(column / 2);
    ptx::ComputeNow(outputs.to[i]);
    if (bias == nullptr || !outputs.exists[i]) continue;
    outputs.biases[i] = bias[column];
    if constexpr (kIsGated<kProduct>) outputs.biases[1] = bias[product.outputs + column];
  }
  return outputs;
}

template <typename Form>
template <LayerProduct kProduct>
__device__ __forceinline__ void LayerProducts<Form>::Store(const PassSums& sums,
                                                           const PassOutputs& outputs,
                                                           bool has_bias) const {
  const auto biased = [&](float sum, int i) {
    return has_bias ? __fadd_rn(sum, outputs.biases[i]) : sum;
  };
#pragma unroll
  for (int i = 0; i < kTiles<kProduct>; ++i) {
    if (!outputs.exists[i]) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (j >= kRows) continue;
      const int row = lane_ % 4 * 2 + j;
      float value = biased(sums.values[2 * i + j], i);
      // GELU and SwiGLU see rounded values.
      if constexpr (kIsGated<kProduct>) {
        value = DeviceGatedValue(Rounded(value), Rounded(biased(sums.values[2 + j], 1)));
      } else if constexpr (kProduct == kMlpInput) {
        value = DeviceGeluTanh(Rounded(value));
      }
      const uint32_t pair = PackBFloat16x2(value, __shfl_down_sync(0xFFFFFFFFu, value, 4));
      if (lane_ / 4 % 2 != 0 || row >= kRows) continue;
      StoreTagged(outputs.to[i] + j * outputs.row_words, pair, tag_);
    }
  }
}

}  // namespace lockstep::kernels
