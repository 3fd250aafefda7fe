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

  __device__ void Store(const GemmTask& task, int row, int first_column) const {
    const int64_t at = row * task.output_stride + first_column;
    const bool whole = first_column + (kPairs - 1) * kColumnStep + 1 < task.n;
    if (whole && task.wide_stores) {
      StoreWide(task.output + at);
    } else if (task.output_f32 != nullptr) {
      StoreAs<float2>(task.output_f32 + at, task.n - first_column, whole && task.paired_stores);
    } else {
      StoreAs<uint32_t>(task.output + at, task.n - first_column, whole && task.paired_stores);
    }
  }

 private:
  // The four threads of a row swap pairs, so that each has eight neighbours of every four pairs:
  // 16 bytes a store, whole sectors.
  __device__ void StoreWide(BFloat16* output) const {
    constexpr int kWidePairs = kColumnStep == 8 ? kPairs / 4 * 4 : 0;
    const int lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int first = 0; first < kWidePairs; first += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) Convert(values[first + i], words[i]);
      Swap(words[0], words[1], 1);
      Swap(words[2], words[3], 1);
      Swap(words[0], words[2], 2);
      Swap(words[1], words[3], 2);
      *reinterpret_cast<uint4*>(output - 2 * lane + 8 * (first + lane)) =
          make_uint4(words[0], words[1], words[2], words[3]);
    }
#pragma unroll
    for (int i = kWidePairs; i < kPairs; ++i) {
      Convert(values[i], *reinterpret_cast<uint32_t*>(output + i * kColumnStep));
    }
  }
  // Of two threads `distance` apart the first keeps its `low` and gets the other's as `high`.
  __device__ static void Swap(uint32_t& low, uint32_t& high, int distance) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool is_second = (lane & distance) != 0;
    const uint32_t given = __shfl_xor_sync(0xFu << (lane & ~3), is_second ? low : high, distance);
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
  if (row >= task.num_rows) return;
  gate.AddBias(task.bias, first_column, task.n);
  up.AddBias(task.bias == nullptr ? nullptr : task.bias + task.n, first_column, task.n);
  gate.Gate(up);
  gate.Store(task, row, first_column);
}

template <GemmEpilogue kEpilogue, int kPairs, int kColumnStep>
__device__ __forceinline__ void StoreActivated(const GemmTask& task, int row, int first_column,
                                               GemmRowShare<kPairs, kColumnStep> share) {
  if (row >= task.num_rows) return;
  share.AddBias(task.bias, first_column, task.n);
  share.template Activate<kEpilogue>();
  share.Store(task, row, first_column);
}

}  // namespace lockstep::kernels
