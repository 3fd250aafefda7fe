#include "worker/memory/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

using kernels::BFloat16;
using kernels::kKvBlockTokens;

absl::Status CheckKvCacheFits(const KvPoolShape& shape, uint64_t available_bytes) {
  if (shape.bytes() <= available_bytes) return absl::OkStatus();
  const auto num_tokens = static_cast<uint64_t>(shape.num_blocks * kKvBlockTokens);
  const uint64_t token_bytes = shape.bytes() / num_tokens;
  constexpr double kGib = 1 << 30;
  return ResourceExhausted(
      "the KV cache: {} tokens of {} bytes are {:.1f} GiB, and {:.1f} GiB of memory are available; "
      "at most {} tokens would fit without the weights",
      num_tokens, token_bytes, static_cast<double>(shape.bytes()) / kGib,
      static_cast<double>(available_bytes) / kGib,
      available_bytes / token_bytes / kKvBlockTokens * kKvBlockTokens);
}

absl::StatusOr<KvPool> KvPool::Create(const KvPoolShape& shape) {
  auto buffer = PageBuffer::Allocate(shape.bytes());
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
