#pragma once

#include <cstdint>

#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/mbarrier.cuh"
#include "kernels/core/ptx/mma.cuh"
#include "kernels/core/ptx/tensor_copy.cuh"
#include "kernels/decoder/decode_layers_plan.h"

// The weights' way through a block: product after product, layer after layer, one warp has the copy
// engine fill a ring of stages, as far ahead as the ring reaches; it waits for nobody but the
// readers of the ring.
namespace lockstep::kernels {

// Where a block is on the weights' way: stages are numbered from the start of the kernel.
struct StagePosition {
  int stage = 0;  // of the ring
  uint32_t phase = 0;
  uint32_t number = 0;

  // By at most the length of the ring.
  __device__ __forceinline__ void Advance(int count, int num_stages) {
    number += count;
    stage += count;
    if (stage >= num_stages) {
      stage -= num_stages;
      phase ^= 1;
    }
  }
  // By any count.
  __device__ __forceinline__ void Skip(int count, int num_stages) {
    number += count;
    const int turns = (stage + count) / num_stages;
    stage += count - turns * num_stages;
    phase ^= turns & 1;
  }
};

// One matrix product of a layer, and the share of this block: tiles of kTileOutputs outputs,
// blockIdx.x, blockIdx.x + gridDim.x, ... Gated: of a tile, gate rows and then up rows.
struct BlockProduct {
  __device__ __forceinline__ BlockProduct(const BFloat16* product_weights, int num_outputs,
                                          int num_inputs, bool is_gated)
      : weights(product_weights),
        outputs(num_outputs),
        inputs(num_inputs),
        halves(is_gated ? 2 : 1),
        num_slabs((num_inputs + kSlabColumns - 1) / kSlabColumns),
        num_tiles((num_outputs / kTileOutputs - static_cast<int>(blockIdx.x) +
                   static_cast<int>(gridDim.x) - 1) /
                  static_cast<int>(gridDim.x)) {}

  __device__ __forceinline__ int FirstOutput(int tile) const {
    return (static_cast<int>(blockIdx.x) + tile * static_cast<int>(gridDim.x)) * kTileOutputs;
  }
  __device__ __forceinline__ int SlabColumns(int slab) const {
    return min(inputs - slab * kSlabColumns, kSlabColumns);
  }

  const BFloat16* weights;
  int outputs;
  int inputs;
  int halves;
  int num_slabs;
  int num_tiles;  // of this block
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
      ptx::InitBarrier(EmptyBarrier(stage), 1);
      numbers[stage] = UINT32_MAX;
    }
  }

  // By any reader. Readers skip the turns of others: a barrier alone, which tells odd phases from
  // even ones, does not tell a stage that is ready from one that is still on its way for the turn
  // before.
  __device__ __forceinline__ void WaitUntilFull(const StagePosition& position) const {
    while (numbers[position.stage] != position.number) {
    }
    ptx::WaitBarrier(FullBarrier(position.stage), position.phase);
  }

  // Tiles that warps work on side by side. A warp waits for its next slab before it gives the last
  // one back: half of the ring holds one slab of each.
  __device__ __forceinline__ int GroupTiles(int halves) const {
    return min(num_stages / 2 / halves, kConsumerWarps);
  }

  // By the warp that fills the ring: group by group, slab by slab, the rows of every tile.
  __device__ __forceinline__ void Fill(const BlockProduct& product, StagePosition& position) const {
    const int group = GroupTiles(product.halves);
    for (int first = 0; first < product.num_tiles; first += group) {
      const int end = min(first + group, product.num_tiles);
      for (int slab = 0; slab < product.num_slabs; ++slab) {
        for (int tile = first; tile < end; ++tile) {
          for (int half = 0; half < product.halves; ++half) {
            FillStage(product, product.FirstOutput(tile) + half * product.outputs, slab, position);
            position.Advance(1, num_stages);
          }
        }
      }
    }
  }

  uint32_t stages;
  uint32_t barriers;
  int num_stages;
  volatile uint32_t* numbers;  // [num_stages]: of what is, or will be, in the stage

 private:
  __device__ __forceinline__ void FillStage(const BlockProduct& product, int first_row, int slab,
                                            const StagePosition& position) const {
    const uint32_t row_bytes = 2 * product.SlabColumns(slab);
    const uint32_t full = FullBarrier(position.stage);
    ptx::WaitBarrier(EmptyBarrier(position.stage), position.phase ^ 1);
    if (ptx::ElectOneLane()) {
      numbers[position.stage] = position.number;
      ptx::ArriveExpectBytes(full, kTileOutputs * row_bytes);
      const BFloat16* from =
          product.weights + static_cast<int64_t>(first_row) * product.inputs + slab * kSlabColumns;
#pragma unroll
      for (int row = 0; row < kTileOutputs; ++row) {
        ptx::CopyBulk(Stage(position.stage) + row * kSlabRowBytes,
                      from + int64_t{row} * product.inputs, row_bytes, full,
                      ptx::CachePolicy::kEvictFirst);
      }
    }
    __syncwarp();
  }
};

// The input rows of a product in shared memory, as the left operand of matrix instructions; rows
// that there are not are 16 bytes of zero. To put the zeros into the operand's registers instead
// would make every product wait for the registers of the one before.
struct InputRows {
  __device__ __forceinline__ InputRows(uint32_t rows, int row_bytes, int num_rows, uint32_t zero,
                                       int lane)
      : address(lane % 16 < num_rows ? rows + lane % 16 * row_bytes + lane / 16 * 16 : zero),
        step(lane % 16 < num_rows ? 2 * kStepColumns : 0) {}

  static constexpr int kStepColumns = 16;
  uint32_t address;
  uint32_t step;  // bytes from one instruction's columns to the next
};

template <int kHalves>
struct TileSums {
  float values[kHalves][4];
};

// One warp's tile of a product, the canonical dot product of every pair of an input row and an
// output: lane l has in values[half][0..1] input row l / 4, outputs 2 (l % 4) and the next.
// `position` is the warp's first stage, `stride` the stages from slab to slab.
//
// Every product waits for the sum before it, and nothing else may make it wait: runs of columns are
// fetched one ahead, into one of two sets of registers, without branches.
template <int kHalves>
class TileProduct {
 public:
  __device__ __forceinline__ TileProduct(const WeightRing& ring, StagePosition position, int stride,
                                         const InputRows& input, int lane)
      : ring_(ring),
        next_(position),
        stride_(stride),
        input_(input.address),
        input_step_(input.step),
        lane_offset_(lane % 8 * kSlabRowBytes + lane / 8 * 16),
        lane_(lane) {}

  __device__ __forceinline__ TileSums<kHalves> Run(int num_columns) {
    const int whole_columns = num_columns / kSlabColumns * kSlabColumns;
    TileSums<kHalves> sums = {};
    Operands operands[2];
    Open();
    Fetch(operands[0]);
#pragma unroll 1
    for (int column = 0; column < whole_columns;) {
      Fetch(operands[1]);
      Multiply(operands[0], sums);
      column += 2 * kRunColumns;
      const bool ends_slab = column % kSlabColumns == 0;
      const StagePosition slab = open_;
      // Behind the last slab the fetch brings what nobody looks at: a branch around it would cost
      // more.
      if (ends_slab && column < num_columns) Open();
      Fetch(operands[0]);
      Multiply(operands[1], sums);
      if (ends_slab) Release(slab);
    }
    if (whole_columns < num_columns) {
      MultiplyShortSlab((num_columns - whole_columns) / kRunColumns, operands[0], sums);
    }
    return sums;
  }

 private:
  static constexpr int kSlabRuns = kSlabColumns / kRunColumns;
  static_assert(kSlabRuns % 2 == 0);

  static constexpr int kRunSteps = kRunColumns / InputRows::kStepColumns;

  struct Operands {
    uint32_t input[kRunSteps][4];
    uint32_t weights[kHalves][kRunSteps / 2][4];
  };

  // The last slab, where it is not a whole one; its first run has been fetched.
  __device__ __forceinline__ void MultiplyShortSlab(int num_runs, Operands& operands,
                                                    TileSums<kHalves>& sums) {
#pragma unroll 1
    for (int run = 1; run < num_runs; ++run) {
      Multiply(operands, sums);
      Fetch(operands);
    }
    Multiply(operands, sums);
    Release(open_);
  }

  // Waits for the next slab, which is fetched from then on.
  __device__ __forceinline__ void Open() {
    open_ = next_;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      StagePosition position = next_;
      position.Advance(half, ring_.num_stages);
      ring_.WaitUntilFull(position);
      weights_[half] = ring_.Stage(position.stage) + lane_offset_;
    }
    next_.Advance(stride_, ring_.num_stages);
  }
  // All of the slab has been multiplied.
  __device__ __forceinline__ void Release(const StagePosition& slab) const {
    __syncwarp();
    if (lane_ != 0) return;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      StagePosition position = slab;
      position.Advance(half, ring_.num_stages);
      ptx::Arrive(ring_.EmptyBarrier(position.stage));
    }
  }

  __device__ __forceinline__ void Fetch(Operands& operands) {
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
      ptx::LoadMatrixX4(operands.input[step], input_);
      input_ += input_step_;
      if (step % 2 != 0) continue;
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        ptx::LoadMatrixX4(operands.weights[half][step / 2],
                          weights_[half] + 2 * InputRows::kStepColumns * step);
      }
    }
#pragma unroll
    for (int half = 0; half < kHalves; ++half) weights_[half] += 2 * kRunColumns;
  }
  __device__ __forceinline__ void Multiply(const Operands& operands,
                                           TileSums<kHalves>& sums) const {
#pragma unroll
    for (int step = 0; step < kRunSteps; ++step) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const uint32_t(&weights)[4] = operands.weights[half][step / 2];
        ptx::MmaM16N8K16(sums.values[half], operands.input[step], weights[step % 2 * 2],
                         weights[step % 2 * 2 + 1]);
      }
    }
  }

  const WeightRing& ring_;
  StagePosition next_;
  StagePosition open_;
  int stride_;
  uint32_t input_;
  uint32_t input_step_;
  uint32_t lane_offset_;
  uint32_t weights_[kHalves];
  int lane_;
};

}  // namespace lockstep::kernels
