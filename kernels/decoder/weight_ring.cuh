#pragma once

#include <cstdint>

#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/registers.cuh"
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

struct OpenPass;

struct WeightRing {
  // The lower halves of descriptors.
  struct Operands {
    uint32_t weights;
    uint32_t weights_step;  // from one chunk to the next
    uint32_t input;
    uint32_t input_step;  // from one instruction to the next
  };

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

  // Prepares a pass and waits for its first weights. The pass's input rows may still be missing.
  // Call from whole warps.
  __device__ __forceinline__ OpenPass Open(const ProductPlan& product, const InputRows& rows,
                                           const StagePosition& position) const;

  // The canonical dot products of one pass. Call from the product warps, when the input is there.
  // The matrix units read weights and inputs from shared memory. Leaves the position of the next
  // pass in `pass`.
  __device__ __forceinline__ PassSums MultiplyPass(OpenPass& pass) const;

  uint32_t stages;
  uint32_t barriers;
  int num_stages;

 private:
  static constexpr int kChunkSteps = kChunkColumns / 16;

  // The upper half of the descriptors of weights: the tiles of a chunk follow each other.
  static constexpr uint64_t kWeightsUpper = ptx::MatrixDescriptor(0, kChunkBytes) >> 32;

  // There is straight code between fence and commit, so that the compiler keeps the instructions
  // asynchronous. When this returns, at most the last two calls' instructions are under way.
  template <int kCount>
  __device__ __forceinline__ static void MultiplyChunks(Operands& operands, PassSums& sums) {
    ptx::WarpgroupFence();
#pragma unroll
    for (int chunk = 0; chunk < kCount; ++chunk) {
#pragma unroll
      for (uint32_t step = 0; step < kChunkSteps; ++step) {
        ptx::WarpgroupMma<8>(
            sums.values,
            kWeightsUpper << 32 |
                (operands.weights + step * static_cast<uint32_t>(ptx::kDescriptorStepK16)),
            operands.input, true);
        operands.input += operands.input_step;
      }
      operands.weights += operands.weights_step;
    }
    ptx::WarpgroupCommit();
    ptx::WarpgroupWait<2>();
  }

  // Tells that this warp has read the stage.
  __device__ __forceinline__ void Release(int stage) const {
    if (threadIdx.x % 32 == 0) ptx::Arrive(EmptyBarrier(stage));
  }
};

// A pass that is about to begin: all that its instructions need.
struct OpenPass {
  StagePosition position;
  int chunks_left;  // of the pass
  int slab_chunks;
  WeightRing::Operands operands;
};

__device__ __forceinline__ OpenPass WeightRing::Open(const ProductPlan& product,
                                                     const InputRows& rows,
                                                     const StagePosition& position) const {
  OpenPass pass;
  pass.position = {ptx::WarpUniform(position.stage), ptx::WarpUniform(position.phase)};
  pass.chunks_left = ptx::WarpUniform(product.num_chunks);
  pass.slab_chunks = ptx::WarpUniform(product.slab_chunks);
  pass.operands = {
      .weights = static_cast<uint32_t>(ptx::MatrixDescriptor(Stage(pass.position.stage))),
      .weights_step =
          ptx::WarpUniform(static_cast<uint32_t>(product.side_by_side * (kChunkBytes >> 4))),
      .input = ptx::WarpUniform(static_cast<uint32_t>(rows.Descriptor())),
      .input_step = rows.DescriptorStep()};
  ptx::WaitBarrier(FullBarrier(pass.position.stage), pass.position.phase);
  return pass;
}

__device__ __forceinline__ PassSums WeightRing::MultiplyPass(OpenPass& pass) const {
  StagePosition& position = pass.position;
  PassSums sums = {};
  int previous = -1;  // stages that have not been released
  int before_previous = -1;
  for (;;) {
    int chunks = min(pass.slab_chunks, pass.chunks_left);
    pass.chunks_left -= chunks;
#pragma unroll 1
    for (; chunks >= 2; chunks -= 2) MultiplyChunks<2>(pass.operands, sums);
    if (chunks != 0) MultiplyChunks<1>(pass.operands, sums);
    // At most two groups of instructions are under way, and each slab has at least one.
    if (before_previous >= 0) Release(before_previous);
    before_previous = previous;
    previous = position.stage;
    position.Advance(num_stages);
    if (pass.chunks_left == 0) break;
    // The instructions under way hide this.
    ptx::WaitBarrier(FullBarrier(position.stage), position.phase);
    pass.operands.weights = static_cast<uint32_t>(ptx::MatrixDescriptor(Stage(position.stage)));
  }
  ptx::WarpgroupWait<0>();
  if (before_previous >= 0) Release(before_previous);
  Release(previous);
  ptx::HoldAccumulator(sums.values);
  return sums;
}

}  // namespace lockstep::kernels
