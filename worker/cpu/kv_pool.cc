#include "worker/cpu/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

using kernels::BFloat16;

absl::StatusOr<CpuKvPool> CpuKvPool::Create(const KvPoolShape& shape) {
  auto buffer = PageBuffer::Allocate(shape.bytes());
  if (!buffer.ok()) {
    return Annotate(buffer.status(), fmt::format("KV cache of {} blocks", shape.num_blocks));
  }
  return CpuKvPool(shape, *std::move(buffer));
}

kernels::PagedKv CpuKvPool::Layer(int64_t layer) const {
  return {.data = elements().data() + layer * shape_.LayerElements(),
          .num_blocks = shape_.num_blocks,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim};
}

std::span<BFloat16> CpuKvPool::elements() const {
  return {reinterpret_cast<BFloat16*>(buffer_.bytes().data()),
          buffer_.bytes().size() / sizeof(BFloat16)};
}

}  // namespace lockstep::worker
