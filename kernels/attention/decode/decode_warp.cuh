#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/attention/softmax.cuh"
#include "kernels/core/ptx/mma.cuh"

// The four warps of a decode block that compute: they share QK by keys (a page of 16 each) and PV
// by columns, and exchange scores through shared memory.
namespace lockstep::kernels {

// Where the four warps exchange scores, tile by tile in two buffers.
struct ScoreExchange {
  // Stores the scores of page `warp`. A lane has keys 8n + 2t and 8n + 2t + 1 of rows g and g + 8,
  // with g = lane / 4 and t = lane % 4.
  template <int kHalves>
  __device__ __forceinline__ void Store(const float (&page_scores)[2][4], int num_rows, int warp,
                                        int lane) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = lane / 4 + 8 * half;
      if (row >= num_rows) continue;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        *reinterpret_cast<float2*>(scores + row * kScoreStride + 16 * warp + 8 * n + lane % 4 * 2) =
            make_float2(page_scores[n][2 * half], page_scores[n][2 * half + 1]);
      }
    }
  }
  // Loads the scores of all keys of the tile; kNoScore from `num_keys` on.
  template <int kHalves>
  __device__ __forceinline__ void Load(float (&tile_scores)[8][4], int num_rows, int num_keys,
                                       int lane) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = min(lane / 4 + 8 * half, num_rows - 1);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const int key = 8 * n + lane % 4 * 2;
        const float2 pair = *reinterpret_cast<const float2*>(scores + row * kScoreStride + key);
        tile_scores[n][2 * half] = key < num_keys ? pair.x : kNoScore;
        tile_scores[n][2 * half + 1] = key + 1 < num_keys ? pair.y : kNoScore;
      }
    }
  }

  float* scores;
};

// One warp's share of an item: all rows, all weights, and 16 columns of the values from column 16 *
// (warp + 4i) on, for each i.
template <int kHeadDim, int kHalves, KvType kType = KvType::kBFloat16>
struct MathWarp {
  using Tile = KvTile<kHeadDim, kType>;
  static constexpr int kColumnSteps = (Tile::kSteps + kMathWarps - 1) / kMathWarps;

  __device__ __forceinline__ bool HasColumns(int i) const {
    return Tile::kSteps % kMathWarps == 0 || warp + kMathWarps * i < Tile::kSteps;
  }

  __device__ __forceinline__ void LoadQueries(uint32_t queries, int group) {
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      const int row = min(lane % 16, group - 1);  // rows from `group` on repeat the last
      ptx::LoadMatrixX4(query[step], queries + row * kHeadDim * 2 + (2 * step + lane / 16) * 16);
    }
  }

  // The same from global memory: `first` and `second` are the queries of rows g and g + 8.
  __device__ __forceinline__ void LoadQueries(const BFloat16* first, const BFloat16* second) {
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      const int column = 16 * step + lane % 4 * 2;
      query[step][0] = *reinterpret_cast<const uint32_t*>(first + column);
      query[step][1] = *reinterpret_cast<const uint32_t*>(second + column);
      query[step][2] = *reinterpret_cast<const uint32_t*>(first + column + 8);
      query[step][3] = *reinterpret_cast<const uint32_t*>(second + column + 8);
    }
  }

  __device__ __forceinline__ void Begin() {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) rows[half] = SoftmaxRow();
#pragma unroll
    for (int i = 0; i < kColumnSteps; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) output[i][0][j] = output[i][1][j] = 0.0f;
    }
  }

  __device__ __forceinline__ void Score(uint32_t page, float (&scores)[2][4]) const {
    const typename Tile::KeyScales scales(page, lane);
#pragma unroll
    for (int j = 0; j < 4; ++j) scores[0][j] = scores[1][j] = 0.0f;
#pragma unroll
    for (int step = 0; step < Tile::kSteps; ++step) {
      uint32_t b[4];
      Tile::LoadKeys(b, page, step, scales, lane);
      ptx::MmaM16N8K16(scores[0], query[step], b[0], b[1]);
      ptx::MmaM16N8K16(scores[1], query[step], b[2], b[3]);
    }
  }

  // The softmax step over all keys of the tile, then PV over its `num_keys` keys.
  __device__ __forceinline__ void Attend(float (&scores)[8][4], float exponent_scale, uint32_t tile,
                                         int num_keys) {
    uint32_t weights[kKeyTilePages][4];
    float rescale[kHalves];
    SoftmaxStep<kHalves>(exponent_scale, scores, rows, weights, rescale);
#pragma unroll
    for (int i = 0; i < kColumnSteps; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kHalves; ++j) {
        output[i][0][j] = __fmul_rn(output[i][0][j], rescale[j / 2]);
        output[i][1][j] = __fmul_rn(output[i][1][j], rescale[j / 2]);
      }
    }
    if (num_keys == kKeyTile) {
#pragma unroll
      for (int page = 0; page < kKeyTilePages; ++page) {
        AddValues(tile + page * Tile::kPageBytes, kKvBlockTokens, weights[page]);
      }
    } else {
#pragma unroll
      for (int page = 0; page < kKeyTilePages; ++page) {
        const int page_keys = num_keys - page * kKvBlockTokens;
        if (page_keys > 0) AddValues(tile + page * Tile::kPageBytes, page_keys, weights[page]);
      }
    }
  }

  __device__ __forceinline__ void AddValues(uint32_t page, int num_keys,
                                            const uint32_t (&weights)[4]) {
    const typename Tile::ValueScales scales(page, lane);
#pragma unroll
    for (int i = 0; i < kColumnSteps; ++i) {
      if (!HasColumns(i)) continue;
      uint32_t b[4];
      Tile::LoadValues(b, page, warp + kMathWarps * i, scales, lane);
      if (num_keys < kKvBlockTokens) ClearValuesFrom(b, num_keys, lane);
      ptx::MmaM16N8K16(output[i][0], weights, b[0], b[1]);
      ptx::MmaM16N8K16(output[i][1], weights, b[2], b[3]);
    }
  }

  // Calls emit(half, row, column, i, n) for every pair of columns that this lane holds. The pair
  // begins at output[i][n][2 * half].
  template <typename Emit>
  __device__ __forceinline__ void ForColumns(int num_rows, const Emit& emit) const {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const int row = lane / 4 + 8 * half;
      if (row >= num_rows) continue;
#pragma unroll
      for (int i = 0; i < kColumnSteps; ++i) {
        if (!HasColumns(i)) continue;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          emit(half, row, 16 * (warp + kMathWarps * i) + 8 * n + lane % 4 * 2, i, n);
        }
      }
    }
  }

  // Calls emit(half, row, column, first, second) with the pairs themselves.
  template <typename Emit>
  __device__ __forceinline__ void ForOutputs(int num_rows, const Emit& emit) const {
    ForColumns(num_rows, [&](int half, int row, int column, int i, int n) {
      emit(half, row, column, output[i][n][2 * half], output[i][n][2 * half + 1]);
    });
  }

  int warp;
  int lane;
  uint32_t query[Tile::kSteps][4];
  SoftmaxRow rows[kHalves];
  float output[kColumnSteps][2][4];
};

}  // namespace lockstep::kernels
