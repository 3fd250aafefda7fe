#pragma once

#include <cstdint>

#include "kernels/core/ptx/mma.cuh"
#include "kernels/gemm/tile/gemm_ring.cuh"
#include "kernels/gemm/tile/gemm_store.cuh"

namespace lockstep::kernels {

// Consumers that are warps, each with 16 input rows and pairs of 8 weight rows (gemm_tiling.cc says
// which products they take). A
// warp issues in order and every product waits for the sum before it, so the operands are fetched
// two steps ahead, between the products.
template <int kWeightRows, int kInputRows, GemmEpilogue kEpilogue>
class GemmWarpUnit {
  static constexpr bool kGated = kEpilogue == GemmEpilogue::kSwiGlu;

 public:
  using Ring = GemmRing<GemmUnit::kWarp, kWeightRows, kInputRows, kGated>;
  static constexpr int kPairs = kWeightRows / 16;
  static constexpr int kRowWarps = kInputRows / 16;
  static constexpr int kColumnWarps = [] {
    int warps = 8 / kRowWarps;
    while (kPairs % warps != 0) --warps;
    return warps;
  }();
  static constexpr int kWarps = kRowWarps * kColumnWarps;

  __device__ GemmWarpUnit(const GemmTask& task, const Ring& ring, int warp)
      : task_(task), ring_(ring), warp_(warp) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const uint32_t row_in_group = lane % 8;
    const uint32_t input_row = warp / kColumnWarps * 16 + lane % 16;
    input_offset_ = input_row * kBlockRowBytes + ((lane / 16 ^ row_in_group) << 4);
    const uint32_t weight_row =
        FirstPair() * kRowsBetweenPairs + lane / 16 * kRowsInPair + row_in_group;
    weight_offset_ = weight_row * kBlockRowBytes + ((lane / 8 % 2 ^ row_in_group) << 4);
  }

  __device__ void Consume() {
    RingSlot slot;
    for (int tile = ring_.FirstTile(); ring_.IsTile(tile); tile = ring_.NextTile(tile)) {
      const TileOrigin origin = ring_.Origin(tile);
      Clear(sums_);
#ifdef LOCKSTEP_PLANT_SPLIT_K
      Clear(first_half_);
#endif
      ring_.WaitUntilFull(slot);
      for (int step = 0; step < kStepsAhead; ++step) Fetch(slot.stage, step, operands_[step]);
      for (int slab = 0; slab < ring_.num_slabs(); ++slab) ConsumeSlab(slab, slot);
#ifdef LOCKSTEP_PLANT_SPLIT_K
      AddTo(sums_, first_half_);
#endif
      Store(origin);
    }
  }

 private:
  static constexpr int kWarpPairs = kPairs / kColumnWarps;
  static constexpr int kStepsAhead = 2;
  static constexpr int kBuffers = 4;
  // Weight rows of a pair are neighbours, or a gate row and its up row.
  static constexpr int kRowsInPair = kGated ? kWeightRows / 2 : 8;
  static constexpr int kRowsBetweenPairs = kGated ? 8 : 16;

  struct Operands {
    uint32_t input[4];
    uint32_t weights[kWarpPairs][4];
  };
  using Sums = float[kWarpPairs][2][4];

  __device__ int FirstPair() const { return warp_ % kColumnWarps * kWarpPairs; }

  __device__ static void Clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kWarpPairs * 8; ++i) sums[i / 8][i / 4 % 2][i % 4] = 0.0f;
  }
#ifdef LOCKSTEP_PLANT_SPLIT_K
  __device__ static void AddTo(Sums& to, const Sums& more) {
#pragma unroll
    for (int i = 0; i < kWarpPairs * 8; ++i) {
      float& sum = to[i / 8][i / 4 % 2][i % 4];
      sum = __fadd_rn(sum, more[i / 8][i / 4 % 2][i % 4]);
    }
  }
#endif

  // The swizzle puts 16-byte part p of a row at p ^ (row % 8): 16 columns on are two parts on.
  __device__ void Fetch(int stage, int step, Operands& operands) const {
    const int block = step / Ring::kBlockSteps;
    const uint32_t part = step % Ring::kBlockSteps << 5;
    const uint32_t input = ring_.Input(stage) + block * ring_.input_block_bytes() + input_offset_;
    const uint32_t weights =
        ring_.Weights(stage) + block * Ring::kWeightBlockBytes + weight_offset_;
    ptx::LoadMatrixX4(operands.input, input ^ part);
#pragma unroll
    for (int pair = 0; pair < kWarpPairs; ++pair) {
      ptx::LoadMatrixX4(operands.weights[pair],
                        (weights ^ part) + pair * kRowsBetweenPairs * kBlockRowBytes);
    }
  }

  __device__ void Multiply(const Operands& operands) {
#pragma unroll
    for (int pair = 0; pair < kWarpPairs; ++pair) {
      const uint32_t(&weights)[4] = operands.weights[pair];
      ptx::MmaM16N8K16(sums_[pair][0], operands.input, weights[0], weights[1]);
      ptx::MmaM16N8K16(sums_[pair][1], operands.input, weights[2], weights[3]);
    }
  }

  // Multiplies the slab, fetches the start of the next one of this tile, and walks on.
  __device__ void ConsumeSlab(int slab, RingSlot& slot) {
    const bool has_next = slab + 1 < ring_.num_slabs();
    RingSlot next = slot;
    ring_.Advance(next);
#pragma unroll
    for (int step = 0; step < Ring::kSlabSteps; ++step) {
      const int ahead = step + kStepsAhead;
      if (ahead < Ring::kSlabSteps) {
        Fetch(slot.stage, ahead, operands_[ahead % kBuffers]);
      } else if (has_next) {
        if (ahead == Ring::kSlabSteps) ring_.WaitUntilFull(next);
        Fetch(next.stage, ahead - Ring::kSlabSteps, operands_[ahead % kBuffers]);
      }
      Multiply(operands_[step % kBuffers]);
#ifdef LOCKSTEP_PLANT_SPLIT_K
      // The planted fault of docs/numerics.md: few rows sum the halves of k apart.
      if (step == 0 && slab == ring_.num_slabs() / 2 && task_.num_rows <= 4) {
        AddTo(first_half_, sums_);
        Clear(sums_);
      }
#endif
    }
    ring_.Release(slot.stage);
    slot = next;
  }

  __device__ void Store(const TileOrigin& tile) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp_row = tile.first_row + warp_ / kColumnWarps * 16;
    const int first_row = warp_row + lane / 4;
    const int first_column = tile.first_column + lane % 4 * 2 + FirstPair() * (kGated ? 8 : 16);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (warp_row + 8 * half >= task_.num_rows) continue;
      if constexpr (kGated) {
        StoreGated(task_, first_row + 8 * half, first_column, Share<kWarpPairs>(half, 2, 0),
                   Share<kWarpPairs>(half, 2, 1));
      } else {
        StoreActivated<kEpilogue>(task_, first_row + 8 * half, first_column,
                                  Share<2 * kWarpPairs>(half, 1, 0));
      }
    }
  }
  // Sums of one of the two rows: of every `stride`-th tile of 8 weight rows, from `first` on.
  template <int kCount>
  __device__ GemmRowShare<kCount, 8> Share(int half, int stride, int first) const {
    GemmRowShare<kCount, 8> share;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int at = i * stride + first;
      share.values[i][0] = sums_[at / 2][at % 2][2 * half];
      share.values[i][1] = sums_[at / 2][at % 2][2 * half + 1];
    }
    return share;
  }

  const GemmTask& task_;
  const Ring& ring_;
  int warp_;
  uint32_t input_offset_;
  uint32_t weight_offset_;
  Operands operands_[kBuffers];
  Sums sums_;
#ifdef LOCKSTEP_PLANT_SPLIT_K
  Sums first_half_;
#endif
};

}  // namespace lockstep::kernels
