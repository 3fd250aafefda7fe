#pragma once

#include <cstdint>

#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/core/ptx/warpgroup_mma.cuh"
#include "kernels/decoder/decode_layers_plan.h"

// How weights pass through a block. One warp has the copy engine fill a ring of stages, product
// after product, layer after layer, as far ahead as the ring reaches. One warpgroup multiplies.
namespace lockstep::kernels {

inline constexpr int kProductWarps = 4;  // the first consumers

// Where a warp is in the ring.
struct StagePosition {
  int stage = 0;
  uint32_t phase = 0;

  __device__ __forceinline__ void Advance(int num_stages) {
    if (++stage < num_stages) return;
    stage = 0;
    phase ^= 1;
  }
};

// One matrix product of a layer: its shape, this block's share, where its inputs come from, and
// where its outputs go. The share is the tiles blockIdx.x, blockIdx.x + gridDim.x, ... of
// kTileOutputs outputs each.
struct BlockProduct {
  __device__ __forceinline__ BlockProduct(const DecodeLayersShape& shape,
                                          const DecodeLayersWords& words, LayerProduct product) {
    const ProductShape of(shape, product);
    const int num_blocks = static_cast<int>(gridDim.x);
    const ProductPass pass(of.outputs, of.halves, num_blocks);
    outputs = static_cast<int>(of.outputs);
    inputs = static_cast<int>(of.inputs);
    halves = of.halves;
    num_tiles =
        (outputs / kTileOutputs - static_cast<int>(blockIdx.x) + num_blocks - 1) / num_blocks;
    pass_tiles = pass.tiles;
    slab_chunks = pass.slab_chunks;
    tile_stride = pass.tile_stride;
    const int64_t sources[] = {words.mlp_delta, words.attention, words.attention_delta,
                               words.activated};
    const int64_t targets[] = {words.qkv, words.attention_delta, words.activated, words.mlp_delta};
    from = sources[product];
    to = targets[product];
  }

  __device__ __forceinline__ int FirstOutput(int tile) const {
    return (static_cast<int>(blockIdx.x) + tile * static_cast<int>(gridDim.x)) * kTileOutputs;
  }

  int outputs;  // of one half
  int inputs;
  int halves;
  int num_tiles;  // of this block, and of one half
  int pass_tiles;
  int slab_chunks;
  int tile_stride;
  int64_t from;  // in the scratch memory: words of the inputs; with a norm, words of what is added
                 // to the residual
  int64_t to;
};

// Input rows of a product in shared memory: the first 8 columns of all rows, then the next 8, and
// so on.
struct InputRows {
  __device__ __forceinline__ uint64_t Descriptor() const {
    return ptx::FewRowsDescriptor(address, 16 * num_rows);
  }
  // What to add to a descriptor to go on by 16 columns.
  __device__ __forceinline__ uint32_t DescriptorStep() const { return 2 * num_rows; }

  // Byte offset of a row's `group`th 8 columns.
  __device__ __forceinline__ static int Offset(int group, int row, int num_rows) {
    return (group * num_rows + row) * 16;
  }

  uint32_t address;
  int num_rows;
};

// The sums of a pass. Thread l of warp w has output l / 4 of tile 2w in [0..1] and of tile 2w + 1
// in [2..3], for input rows 2 (l % 4) and the next.
struct PassSums {
  float values[4];
};

struct WeightRing {
  __device__ __forceinline__ uint32_t Stage(int stage) const {
    return stages + stage * kStageBytes;
  }
  __device__ __forceinline__ uint32_t FullBarrier(int stage) const { return barriers + 16 * stage; }
  __device__ __forceinline__ uint32_t EmptyBarrier(int stage) const {
    return barriers + 16 * stage + 8;
  }

  __device__ __forceinline__ void Initialize() const {
    for (int stage = 0; stage < num_stages; ++stage) {
      ptx::InitBarrier(FullBarrier(stage), 1);
      ptx::InitBarrier(EmptyBarrier(stage), kProductWarps);
    }
  }

  // Fills the ring, pass by pass and slab by slab, with all tiles of a pass side by side. Only the
  // warp that fills the ring calls it.
  __device__ __forceinline__ void Fill(const BlockProduct& product, const WeightMap& map,
                                       StagePosition& position) const {
    const int num_chunks = product.inputs / kChunkColumns;
    const int tile_bytes = product.slab_chunks * kChunkBytes;
    for (int first = 0; first < product.num_tiles; first += product.pass_tiles) {
      const int num_tiles = min(product.pass_tiles, product.num_tiles - first);
      for (int chunk = 0; chunk < num_chunks; chunk += product.slab_chunks) {
        const uint32_t full = FullBarrier(position.stage);
        ptx::WaitBarrier(EmptyBarrier(position.stage), position.phase ^ 1);
        if (ptx::ElectOneLane()) {
          // What lies after the last chunk arrives as zeros.
          ptx::ArriveExpectBytes(full, product.halves * num_tiles * tile_bytes);
          for (int half = 0; half < product.halves; ++half) {
            for (int tile = 0; tile < num_tiles; ++tile) {
              ptx::CopyTensorBox(
                  Stage(position.stage) + (half * product.pass_tiles + tile) * tile_bytes,
                  reinterpret_cast<const CUtensorMap*>(&map), 0,
                  half * product.outputs + product.FirstOutput(first + tile), chunk, full,
                  ptx::CachePolicy::kEvictFirst);
            }
          }
        }
        __syncwarp();
        position.Advance(num_stages);
      }
    }
  }

  // Brings what Fill will take to the second-level cache. Called by the same warp.
  __device__ __forceinline__ static void Prefetch(const BlockProduct& product,
                                                  const WeightMap& map) {
    const auto* const tensor = reinterpret_cast<const CUtensorMap*>(&map);
    if (ptx::ElectOneLane()) {
      for (int chunk = 0; chunk * kChunkColumns < product.inputs; chunk += product.slab_chunks) {
        for (int half = 0; half < product.halves; ++half) {
          for (int tile = 0; tile < product.num_tiles; ++tile) {
            ptx::PrefetchTensorBox(tensor, 0, half * product.outputs + product.FirstOutput(tile),
                                   chunk);
          }
        }
      }
    }
    __syncwarp();
  }

  // The canonical dot products of one pass. Call from the product warps. The matrix units read
  // weights and inputs from shared memory.
  __device__ __forceinline__ PassSums MultiplyPass(const BlockProduct& product,
                                                   const InputRows& rows,
                                                   StagePosition& position) const {
    const int num_chunks = ptx::WarpUniform(product.inputs) / kChunkColumns;
    const int slab_chunks = ptx::WarpUniform(product.slab_chunks);
    const auto tile_stride = static_cast<uint32_t>(ptx::WarpUniform(product.tile_stride));
    position = {ptx::WarpUniform(position.stage), ptx::WarpUniform(position.phase)};
    Operands operands = {
        .weights = 0,
        .weights_upper = static_cast<uint32_t>(ptx::MatrixDescriptor(0, tile_stride) >> 32),
        .input = ptx::WarpUniform(static_cast<uint32_t>(rows.Descriptor())),
        .input_step = ptx::WarpUniform(rows.DescriptorStep())};
    PassSums sums = {};
    StagePosition previous;
    bool is_full = false;
#pragma unroll 1
    for (int slab = 0; slab < num_chunks; slab += slab_chunks) {
      const StagePosition opened = position;
      if (!is_full) ptx::WaitBarrier(FullBarrier(opened.stage), opened.phase);
      operands.weights = static_cast<uint32_t>(ptx::MatrixDescriptor(Stage(opened.stage)));
      position.Advance(num_stages);
      // Tested now, so that the answer is there when it is needed. After the last slab it is not
      // needed.
      is_full = ptx::TestBarrier(FullBarrier(position.stage), position.phase);
      int chunks = min(slab_chunks, num_chunks - slab);
#pragma unroll 1
      for (; chunks >= 4; chunks -= 4) MultiplyChunks<4>(operands, sums);
      if (chunks >= 2) MultiplyChunks<2>(operands, sums);
      if (chunks % 2 != 0) MultiplyChunks<1>(operands, sums);
      // All but the last instructions have ended. So those of the previous slab have.
      if (slab > 0) Release(previous.stage);
      previous = opened;
    }
    ptx::WarpgroupWait<0>();
    Release(previous.stage);
    ptx::HoldAccumulator(sums.values);
    return sums;
  }

  uint32_t stages;
  uint32_t barriers;
  int num_stages;

 private:
  static constexpr int kChunkSteps = kChunkColumns / 16;

  // Halves of descriptors. Halves that do not change are kept apart.
  struct Operands {
    uint32_t weights;
    uint32_t weights_upper;
    uint32_t input;
    uint32_t input_step;  // from one instruction to the next
  };

  // There is straight code between fence and commit, so that the compiler keeps the instructions
  // asynchronous. When this returns, the instructions of earlier calls have ended.
  template <int kCount>
  __device__ __forceinline__ static void MultiplyChunks(Operands& operands, PassSums& sums) {
    ptx::WarpgroupFence();
#pragma unroll
    for (uint32_t step = 0; step < kCount * kChunkSteps; ++step) {
      const uint32_t column = step / kChunkSteps * (kChunkBytes >> 4) +
                              step % kChunkSteps * static_cast<uint32_t>(ptx::kDescriptorStepK16);
      ptx::WarpgroupMma<8>(
          sums.values,
          static_cast<uint64_t>(operands.weights_upper) << 32 | (operands.weights + column),
          operands.input + step * operands.input_step, true);
    }
    ptx::WarpgroupCommit();
    ptx::WarpgroupWait<1>();
    operands.weights += kCount * (kChunkBytes >> 4);
    operands.input += kCount * kChunkSteps * operands.input_step;
  }

  // Tells that this warp has read the stage.
  __device__ __forceinline__ void Release(int stage) const {
    if (threadIdx.x % 32 == 0) ptx::Arrive(EmptyBarrier(stage));
  }
};

}  // namespace lockstep::kernels
