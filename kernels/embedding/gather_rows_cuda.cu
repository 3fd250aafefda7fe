#include <algorithm>

#include "common/status.h"
#include "kernels/core/ptx/memory.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/embedding/gather_rows.h"

namespace lockstep::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = 8;  // elements of a 16-byte access

// Block (row, piece of the row).
__global__ void __launch_bounds__(kThreads) GatherRowsKernel(GatherRowsParams params) {
  ptx::AllowSuccessor();
  ptx::WaitForPredecessor();
  const int64_t num_vectors = params.size / kVector;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const int64_t source = params.indices[blockIdx.x];
  if (source >= params.num_table_rows && source != kNoRow) __trap();
  if (column >= num_vectors) return;
  reinterpret_cast<uint4*>(params.output)[blockIdx.x * num_vectors + column] =
      source == kNoRow
          ? uint4{}
          : reinterpret_cast<const uint4*>(params.table)[source * num_vectors + column];
}

}  // namespace

absl::Status GatherRows(const CudaStream& stream, const GatherRowsParams& params) {
  if (params.size % kVector != 0) {
    return InvalidArgument("GatherRows: the row size must be a multiple of {}, got {}", kVector,
                           params.size);
  }
  if (params.num_rows == 0 || params.size == 0) return absl::OkStatus();
  const int64_t num_vectors = params.size / kVector;
  const int64_t num_threads = std::min<int64_t>(kThreads, (num_vectors + 31) / 32 * 32);
  const int64_t num_pieces = (num_vectors + kThreads - 1) / kThreads;
  return Launch(
      stream, "GatherRows",
      {.grid = dim3(static_cast<unsigned>(params.num_rows), static_cast<unsigned>(num_pieces)),
       .block = dim3(static_cast<unsigned>(num_threads))},
      GatherRowsKernel, params);
}

}  // namespace lockstep::kernels
