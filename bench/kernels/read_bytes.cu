#include "bench/kernels/read_bytes.h"
#include "common/status.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 8;  // of 16 bytes, under way in each thread
constexpr int kBlockVectors = kThreads * kLoads;

// Each block has one piece of kBlockVectors vectors. Weights are there before the predecessor ends,
// so, as in the products, they are read without waiting for it.
__global__ void __launch_bounds__(kThreads) ReadBytesKernel(const uint4* data, size_t num_vectors) {
  ptx::AllowSuccessor();
  uint4 loaded[kLoads];
  const size_t first = static_cast<size_t>(blockIdx.x) * kBlockVectors + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const size_t index = first + static_cast<size_t>(i) * kThreads;
    loaded[i] = index < num_vectors ? __ldcs(data + index) : uint4{};
  }
  uint32_t all = ~0u;
#pragma unroll
  for (const uint4& vector : loaded) all &= vector.x & vector.y & vector.z & vector.w;
  // Random weights are never all ones. The trap keeps the loads in the program.
  if (all == ~0u) __trap();
  ptx::WaitForPredecessor();
}

}  // namespace

absl::Status ReadBytes(const CudaStream& stream, const void* data, size_t size) {
  const size_t num_vectors = size / sizeof(uint4);
  const size_t num_blocks = (num_vectors + kBlockVectors - 1) / kBlockVectors;
  return Launch(stream, "ReadBytes",
                {.grid = dim3(static_cast<unsigned>(num_blocks)), .block = kThreads},
                ReadBytesKernel, static_cast<const uint4*>(data), num_vectors);
}

}  // namespace lockstep::kernels
