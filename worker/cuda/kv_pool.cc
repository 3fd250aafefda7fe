#include "worker/cuda/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

absl::StatusOr<CudaKvPool> CudaKvPool::Create(const KvGroupPlan& group, int64_t num_blocks) {
  LOCKSTEP_ASSIGN_OR_RETURN(kernels::DeviceBuffer buffer,
                            kernels::DeviceBuffer::Create(
                                static_cast<size_t>(num_blocks) * group.CudaBlockBytes(),
                                fmt::format("KV cache of {} blocks (a smaller --kv-cache-tokens or "
                                            "--memory-fraction needs less)",
                                            num_blocks)));
  return CudaKvPool(group, num_blocks, std::move(buffer));
}

kernels::PagedKv CudaKvPool::Layer(int64_t layer) const {
  return {.data = buffer_.data() +
                  static_cast<uint64_t>(layer * num_blocks_) * group_.CudaLayerBlockBytes(),
          .num_blocks = num_blocks_,
          .num_kv_heads = group_.num_kv_heads,
          .head_dim = group_.head_dim,
          .type = group_.type};
}

}  // namespace lockstep::worker
