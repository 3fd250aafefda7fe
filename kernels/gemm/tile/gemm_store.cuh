#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"
#include "kernels/core/device_math.cuh"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {

// One row's share of a thread in a tile: kPairs pairs of neighbouring columns, pair i at
// first_column + i * kColumnStep. Bias, gating and rounding happen here, for every unit alike.
template <int kPairs, int kColumnStep>
struct GemmRowShare {
  float values[kPairs][2];

  __device__ void AddBias(const float* bias, int first_column, int n) {
    if (bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const int column = first_column + i / 2 * kColumnStep + i % 2;
      if (column < n) values[i / 2][i % 2] = __fadd_rn(values[i / 2][i % 2], bias[column]);
    }
  }

  // The kernel for GELU sees rounded values: so does this.
  template <GemmEpilogue kEpilogue>
  __device__ void Activate() {
    if constexpr (kEpilogue != GemmEpilogue::kPlain) {
#pragma unroll
      for (int i = 0; i < 2 * kPairs; ++i) {
        float& value = values[i / 2][i % 2];
        const float rounded = DeviceToFloat(DeviceToBFloat16(value));
        value =
            kEpilogue == GemmEpilogue::kGeluTanh ? DeviceGeluTanh(rounded) : DeviceGeluErf(rounded);
      }
    }
  }

  // The kernel for SwiGLU sees rounded values: so does this.
  __device__ void Gate(const GemmRowShare& up) {
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      float& value = values[i / 2][i % 2];
      value = DeviceGatedValue(DeviceToFloat(DeviceToBFloat16(value)),
                               DeviceToFloat(DeviceToBFloat16(up.values[i / 2][i % 2])));
    }
  }

  // All threads of a warp call this, also for rows beyond num_rows.
  __device__ void Store(const GemmTask& task, int row, int first_column) const {
    const int64_t at = row * task.output_stride + first_column;
    const bool whole = first_column + (kPairs - 1) * kColumnStep + 1 < task.n;
    if (task.wide_stores) {
      const WideWords words = SwapPairs();
      if (row >= task.num_rows) return;
      if (whole) return StoreWide(words, task.output + at);
    }
    if (row >= task.num_rows) return;
    if (task.output_f32 != nullptr) {
      StoreAs<float2>(task.output_f32 + at, task.n - first_column, whole && task.paired_stores);
    } else {
      StoreAs<uint32_t>(task.output + at, task.n - first_column, whole && task.paired_stores);
    }
  }

 private:
  static constexpr int kWidePairs = kColumnStep == 8 ? kPairs / 4 * 4 : 0;
  struct WideWords {
    uint32_t of_pair[kPairs];
  };

  // The four threads of a row swap pairs, so that each has eight neighbours of every four pairs: 16
  // bytes a store, whole sectors. Pairs beyond the last four stay where they are. No condition that
  // threads could decide differently stands around a swap: the compiler would then no longer know
  // that the warp is together in the next tile (SlabWalk).
  __device__ WideWords SwapPairs() const {
    WideWords words;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) Convert(values[i], words.of_pair[i]);
#pragma unroll
    for (int first = 0; first < kWidePairs; first += 4) {
      uint32_t* const four = words.of_pair + first;
      Swap(four[0], four[1], 1);
      Swap(four[2], four[3], 1);
      Swap(four[0], four[2], 2);
      Swap(four[1], four[3], 2);
    }
    return words;
  }
  __device__ static void StoreWide(const WideWords& words, BFloat16* output) {
    const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int first = 0; first < kWidePairs; first += 4) {
      const uint32_t* const four = words.of_pair + first;
      *reinterpret_cast<uint4*>(output - 2 * lane + 8 * (first + lane)) =
          make_uint4(four[0], four[1], four[2], four[3]);
    }
#pragma unroll
    for (int i = kWidePairs; i < kPairs; ++i) {
      *reinterpret_cast<uint32_t*>(output + i * kColumnStep) = words.of_pair[i];
    }
  }
  // Of two threads `distance` apart the first keeps its `low` and gets the other's as `high`.
  __device__ static void Swap(uint32_t& low, uint32_t& high, int distance) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool is_second = (lane & distance) != 0;
    const uint32_t given = __shfl_xor_sync(0xFFFFFFFFu, is_second ? low : high, distance);
    (is_second ? low : high) = given;
  }

  __device__ static void Convert(const float (&pair)[2], float2& to) {
    to = make_float2(pair[0], pair[1]);
  }
  __device__ static void Convert(const float (&pair)[2], uint32_t& to) {
    to = PackBFloat16x2(pair[0], pair[1]);
  }
  __device__ static void Convert(float value, float& to) { to = value; }
  __device__ static void Convert(float value, BFloat16& to) { to = DeviceToBFloat16(value); }

  template <typename Pair, typename Element>
  __device__ void StoreAs(Element* output, int columns_left, bool paired) const {
    if (paired) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        Convert(values[i], *reinterpret_cast<Pair*>(output + i * kColumnStep));
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) {
      const int column = i / 2 * kColumnStep + i % 2;
      if (column < columns_left) Convert(values[i / 2][i % 2], output[column]);
    }
  }
};

// Stores what two shares of a row become: one output without gating, gated otherwise.
template <int kPairs, int kColumnStep>
__device__ __forceinline__ void StoreGated(const GemmTask& task, int row, int first_column,
                                           GemmRowShare<kPairs, kColumnStep> gate,
                                           GemmRowShare<kPairs, kColumnStep> up) {
  gate.AddBias(task.bias, first_column, task.n);
  up.AddBias(task.bias == nullptr ? nullptr : task.bias + task.n, first_column, task.n);
  gate.Gate(up);
  gate.Store(task, row, first_column);
}

template <GemmEpilogue kEpilogue, int kPairs, int kColumnStep>
__device__ __forceinline__ void StoreActivated(const GemmTask& task, int row, int first_column,
                                               GemmRowShare<kPairs, kColumnStep> share) {
  share.AddBias(task.bias, first_column, task.n);
  share.template Activate<kEpilogue>();
  share.Store(task, row, first_column);
}

}  // namespace lockstep::kernels
