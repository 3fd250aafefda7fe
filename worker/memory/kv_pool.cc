#include "worker/memory/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

using kernels::BFloat16;

absl::StatusOr<KvPool> KvPool::Create(const KvPoolShape& shape) {
  const int64_t elements = shape.num_layers * shape.LayerElements();
  auto buffer = PageBuffer::Allocate(static_cast<size_t>(elements) * sizeof(BFloat16));
  if (!buffer.ok()) {
    return Annotate(buffer.status(), fmt::format("KV cache of {} blocks", shape.num_blocks));
  }
  return KvPool(shape, *std::move(buffer));
}

kernels::PagedKv KvPool::Layer(int64_t layer) const {
  return {.data = elements().data() + layer * shape_.LayerElements(),
          .num_blocks = shape_.num_blocks,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim};
}

std::span<BFloat16> KvPool::elements() const {
  return {reinterpret_cast<BFloat16*>(buffer_.bytes().data()),
          buffer_.bytes().size() / sizeof(BFloat16)};
}

}  // namespace lockstep::worker
