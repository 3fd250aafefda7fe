#include <cstdint>

#include "kernels/core/device_math.cuh"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/core/ptx/mma.cuh"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {
namespace {

// Two neighbours of a row, zero beyond its end or without a row.
__device__ uint32_t LoadPair(const BFloat16* row, int64_t column, int64_t k) {
  if (row == nullptr) return 0;
  const uint32_t first = column < k ? row[column].bits : 0;
  const uint32_t second = column + 1 < k ? row[column + 1].bits : 0;
  return first | second << 16;
}

__device__ void StoreSum(const ReferenceGemmTask& task, int64_t row, int64_t column, float sum) {
  if (row >= task.num_rows || column >= task.n) return;
  if (task.bias != nullptr) sum = __fadd_rn(sum, task.bias[column]);
  const int64_t at = row * task.output_stride + column;
  if (task.output_f32 != nullptr) {
    task.output_f32[at] = sum;
  } else {
    task.output[at] = DeviceToBFloat16(sum);
  }
}

// Block (x, y): input rows 16x.. and weight rows 8y...
__global__ void ReferenceGemmKernel(ReferenceGemmTask task) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t k = task.k;
  const int g = static_cast<int>(threadIdx.x) / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int64_t first_row = int64_t{blockIdx.x} * 16 + g;
  const int64_t second_row = first_row + 8;
  const int64_t first_column = int64_t{blockIdx.y} * 8;
  const auto input_row = [&](int64_t row) {
    return row < task.num_rows ? task.input + row * task.input_stride : nullptr;
  };
  const BFloat16* weights =
      first_column + g < task.n ? task.weights + (first_column + g) * k : nullptr;
  float sums[4] = {};
  for (int64_t i = 0; i < k; i += 16) {
    const int64_t low = i + 2 * t;
    const int64_t high = low + 8;
    const uint32_t a[4] = {
        LoadPair(input_row(first_row), low, k), LoadPair(input_row(second_row), low, k),
        LoadPair(input_row(first_row), high, k), LoadPair(input_row(second_row), high, k)};
    ptx::MmaM16N8K16(sums, a, LoadPair(weights, low, k), LoadPair(weights, high, k));
  }
  StoreSum(task, first_row, first_column + 2 * t, sums[0]);
  StoreSum(task, first_row, first_column + 2 * t + 1, sums[1]);
  StoreSum(task, second_row, first_column + 2 * t, sums[2]);
  StoreSum(task, second_row, first_column + 2 * t + 1, sums[3]);
}

// About normal (the sum of four uniform numbers, variance 1); every 61st value is 50 times as
// large.
__device__ float RandomWithOutliers(uint64_t index, uint64_t seed) {
  constexpr uint64_t kOutlierPeriod = 61;
  uint64_t bits = (index + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  float sum = -2.0f;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(bits >> 16 * i & 0xFFFF) * 0x1p-16f;
  return sum * (index % kOutlierPeriod == 0 ? 86.6f : 1.732f);
}

__global__ void FillKernel(FillTask task) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < task.count; i += stride) {
    const float value = RandomWithOutliers(static_cast<uint64_t>(i), task.seed);
    if (task.values_f32 != nullptr) {
      task.values_f32[i] = value;
    } else {
      task.values[i] = DeviceToBFloat16(value);
    }
  }
}

template <typename Word>
__device__ bool Differs(const BitComparison& comparison, int64_t i) {
  return static_cast<const Word*>(comparison.expected)[i] !=
         static_cast<const Word*>(comparison.actual)[i];
}

__global__ void CompareKernel(BitComparison comparison, unsigned long long* first) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < comparison.num_elements;
       i += stride) {
    const bool differs = comparison.element_bytes == 4 ? Differs<uint32_t>(comparison, i)
                                                       : Differs<uint16_t>(comparison, i);
    if (differs) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

}  // namespace

const void* FindFillKernel() { return reinterpret_cast<const void*>(FillKernel); }
const void* FindCompareKernel() { return reinterpret_cast<const void*>(CompareKernel); }
const void* FindReferenceGemmKernel() { return reinterpret_cast<const void*>(ReferenceGemmKernel); }

}  // namespace lockstep::kernels
