#pragma once

#include <cstdint>

#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/decoder/layer_items.cuh"
#include "kernels/decoder/layers_block.cuh"
#include "kernels/decoder/weight_filler.cuh"
#include "kernels/kv_cache/device_paged_kv.h"

// The warps that fetch what the layers read. They know every layer from the start and run ahead as
// far as their rings reach, with weights one slab at a time.
namespace lockstep::kernels {

// Fetches the keys and values of the tokens before this step, for the items of this block, layer
// after layer.
template <typename Form>
__device__ void FillKvRing(const LayersBlock<Form>& block, int lane) {
  constexpr int kPageBytes = KvTile<Form::kHeadDim>::kPageBytes;
  const DecodeLayersParams& params = block.Params();
  const DecodeArguments& attention = block.Attention();
  const int num_items = NumItems(block);
  RingSlot slot;
  for (int64_t layer = 0; layer < params.shape.num_layers; ++layer) {
    PagedKv kv = attention.params.kv;
    kv.data = params.layers[layer].kv;
    for (int item = FirstItem(); item < num_items; item += gridDim.x) {
      const LayerItem work = FindWork(block, item);
      const BlockId* pages = params.block_tables +
                             params.block_table_rows[work.row] * params.block_table_stride +
                             work.key_begin / kKvBlockTokens;
      const int num_pages = (work.key_end - work.key_begin + kKvBlockTokens - 1) / kKvBlockTokens;
      for (int page = 0; page < num_pages; page += kKeyTilePages) {
        const int tile_pages = min(num_pages - page, kKeyTilePages);
        const BlockId source = lane < tile_pages ? pages[page + lane] : 0;
        const uint32_t full = block.Kv().FullBarrier(slot.stage);
        ptx::WaitBarrier(block.Kv().EmptyBarrier(slot.stage), slot.phase ^ 1);
        if (lane == 0) ptx::ArriveExpectBytes(full, tile_pages * kPageBytes);
        __syncwarp();
        if (lane < tile_pages) {
          ptx::CopyBulk(block.Kv().Tile(slot.stage) + lane * kPageBytes,
                        DeviceKeys(kv, source, work.kv_head), kPageBytes, full);
        }
        slot.Advance(attention.num_stages);
      }
    }
  }
}

// Fetches the weights in the consumers' order.
template <typename Form>
__device__ void FillWeightRing(const LayersBlock<Form>& block) {
  if (static_cast<int>(blockIdx.x) >= block.Product(kQkv).blocks) return;
  const auto map = [&](int64_t layer, int index) -> const WeightMap& {
    return block.Params().layers[layer].products[index].map;
  };
  const int64_t num_layers = block.Params().shape.num_layers;
  WeightFiller filler(block.Ring());
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    for (int index = 0; index < kNumLayerProducts; ++index) {
      if (layer + 1 < num_layers && ptx::ElectOneLane()) {
        ptx::PrefetchTensorMap(reinterpret_cast<const CUtensorMap*>(&map(layer + 1, index)));
      }
      __syncwarp();
      filler.Fill(block.Product(index), map(layer, index));
    }
  }
}

// Brings norm weights and biases to the second-level cache, because all blocks will wait for them.
// The layers are dealt out to the blocks.
__device__ __forceinline__ void PrefetchVectors(const DecodeLayersParams& params, int lane) {
  const auto prefetch = [lane](const float* from, int64_t size) {
    if (from == nullptr) return;
#pragma unroll 1
    for (int64_t i = 32 * lane; i < size; i += 32 * 32) ptx::PrefetchToL2(from + i);
  };
  for (int64_t layer = blockIdx.x; layer < params.shape.num_layers; layer += gridDim.x) {
    const DecodeLayer& weights = params.layers[layer];
    prefetch(weights.attention_norm, params.shape.hidden_size);
    prefetch(weights.attention_norm_bias, params.shape.hidden_size);
    prefetch(weights.mlp_norm, params.shape.hidden_size);
    prefetch(weights.mlp_norm_bias, params.shape.hidden_size);
    prefetch(weights.q_norm, params.shape.head_dim);
    prefetch(weights.k_norm, params.shape.head_dim);
#pragma unroll 1
    for (int index = 0; index < kNumLayerProducts; ++index) {
      const ProductShape product(params.shape, static_cast<LayerProduct>(index));
      prefetch(weights.products[index].bias, product.halves * product.outputs);
    }
  }
}

}  // namespace lockstep::kernels
