#pragma once

#include <cstdint>

#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/decoder/weight_ring.cuh"

namespace lockstep::kernels {

// Fills the ring with the slabs of product after product. Used by one warp.
class WeightFiller {
 public:
  __device__ explicit WeightFiller(const WeightRing& ring) : ring_(ring) {}

  // Requests the slabs in the passes' order, one slab at a time. More of them would fill the queues
  // of the second-level cache, and the words of other blocks would wait there
  // (docs/decisions/0002-decode-layers.md).
  __device__ __forceinline__ void Fill(const ProductPlan& product, const WeightMap& map) {
    const int block = static_cast<int>(blockIdx.x);
    const int num_tiles = product.NumTiles(block);
    for (int first = 0; first < num_tiles; first += product.pass_tiles) {
      for (int chunk = 0; chunk < product.num_chunks; chunk += product.slab_chunks) {
        ptx::WaitBarrier(ring_.EmptyBarrier(position_.stage), position_.phase ^ 1);
        if (has_asked_) ptx::WaitBarrier(ring_.FullBarrier(asked_.stage), asked_.phase);
        const uint32_t full = ring_.FullBarrier(position_.stage);
        if (ptx::ElectOneLane()) {
          // A slab is always whole: tiles of the next block arrive with it, or zeros.
          ptx::ArriveExpectBytes(full, product.side_by_side * product.slab_chunks * kChunkBytes);
          ptx::CopyTensorBox(
              ring_.Stage(position_.stage), reinterpret_cast<const CUtensorMap*>(&map), 0, 0, 0,
              product.FirstTile(block) + first, chunk, full, ptx::CachePolicy::kEvictFirst);
        }
        __syncwarp();
        asked_ = position_;
        has_asked_ = true;
        position_.Advance(ring_.num_stages);
      }
    }
  }

 private:
  const WeightRing ring_;
  StagePosition position_;
  StagePosition asked_;  // of the slab that was asked for last
  bool has_asked_ = false;
};

}  // namespace lockstep::kernels
