#include "worker/cuda/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

// K and V of one block in one layer.
int64_t BlockElements(const KvPoolShape& shape) {
  return 2 * shape.num_kv_heads * kernels::kKvBlockTokens * shape.head_dim;
}

}  // namespace

size_t CudaKvPool::BlockBytes(const KvPoolShape& shape) {
  return static_cast<size_t>(shape.num_layers * BlockElements(shape)) * sizeof(kernels::BFloat16);
}

absl::StatusOr<CudaKvPool> CudaKvPool::Create(const KvPoolShape& shape) {
  LOCKSTEP_ASSIGN_OR_RETURN(kernels::DeviceBuffer buffer,
                            kernels::DeviceBuffer::Create(
                                static_cast<size_t>(shape.num_blocks) * BlockBytes(shape),
                                fmt::format("KV cache of {} blocks (a smaller --kv-cache-tokens or "
                                            "--memory-fraction needs less)",
                                            shape.num_blocks)));
  return CudaKvPool(shape, std::move(buffer));
}

kernels::PagedKv CudaKvPool::Layer(int64_t layer) const {
  return {
      .data = buffer_.data<kernels::BFloat16>() + layer * shape_.num_blocks * BlockElements(shape_),
      .num_blocks = shape_.num_blocks,
      .num_kv_heads = shape_.num_kv_heads,
      .head_dim = shape_.head_dim};
}

}  // namespace lockstep::worker
