#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/device_buffer.h"

// Operands on the device, for benchmarks.
namespace lockstep::kernels {

inline void Check(cudaError_t error) {
  LOCKSTEP_CHECK(error == cudaSuccess, "CUDA: {}", cudaGetErrorString(error));
}
inline void Check(const absl::Status& status) {
  LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
}

inline DeviceBuffer Allocate(size_t num_bytes) {
  absl::StatusOr<DeviceBuffer> buffer = DeviceBuffer::Create(num_bytes);
  Check(buffer.status());
  return *std::move(buffer);
}

template <typename T>
DeviceBuffer Upload(const std::vector<T>& values) {
  DeviceBuffer buffer = Allocate(values.size() * sizeof(T));
  Check(cudaMemcpy(buffer.data(), values.data(), buffer.num_bytes(), cudaMemcpyHostToDevice));
  return buffer;
}

// Gaussian bf16; one stretch of them, repeated.
inline DeviceBuffer RandomOnDevice(int64_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<BFloat16> stretch(size_t{1} << 22);
  for (BFloat16& value : stretch) value = ToBFloat16(normal(generator));
  DeviceBuffer buffer = Allocate(static_cast<size_t>(count) * sizeof(BFloat16));
  for (size_t done = 0; done < static_cast<size_t>(count); done += stretch.size()) {
    const size_t size = std::min(stretch.size(), static_cast<size_t>(count) - done);
    Check(cudaMemcpy(buffer.data<BFloat16>() + done, stretch.data(), size * sizeof(BFloat16),
                     cudaMemcpyHostToDevice));
  }
  return buffer;
}

inline std::vector<BlockId> ShuffledBlocks(int64_t count) {
  std::vector<BlockId> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), BlockId{0});
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(2));
  return blocks;
}

}  // namespace lockstep::kernels
