#include "worker/cpu/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

using kernels::BFloat16;
using kernels::kKvBlockTokens;

absl::StatusOr<CpuKvPool> CpuKvPool::Create(const KvGroupPlan& group, int64_t num_blocks) {
  auto buffer = PageBuffer::Allocate(static_cast<uint64_t>(num_blocks) * group.CpuBlockBytes());
  if (!buffer.ok()) {
    return Annotate(buffer.status(), fmt::format("KV cache of {} blocks", num_blocks));
  }
  const kernels::PagedKv first_layer = {.data = reinterpret_cast<BFloat16*>(buffer->bytes().data()),
                                        .num_blocks = num_blocks,
                                        .num_kv_heads = group.num_kv_heads,
                                        .head_dim = group.head_dim};
  return CpuKvPool(first_layer, *std::move(buffer));
}

kernels::PagedKv CpuKvPool::Layer(int64_t layer) const {
  kernels::PagedKv kv = first_layer_;
  kv.data += layer * kv.num_blocks * kernels::KvBlockElements(kv.num_kv_heads, kv.head_dim);
  return kv;
}

std::span<BFloat16> CpuKvPool::elements() const {
  return {reinterpret_cast<BFloat16*>(buffer_.bytes().data()),
          buffer_.bytes().size() / sizeof(BFloat16)};
}

absl::Status CheckKvCacheFits(const KvGroupPlan& group, int64_t num_blocks,
                              uint64_t available_bytes) {
  const uint64_t num_bytes = static_cast<uint64_t>(num_blocks) * group.CpuBlockBytes();
  if (num_bytes <= available_bytes) return absl::OkStatus();
  const uint64_t token_bytes = group.CpuBlockBytes() / kKvBlockTokens;
  constexpr double kGib = 1 << 30;
  return ResourceExhausted(
      "the KV cache: {} tokens of {} bytes are {:.1f} GiB, and {:.1f} GiB of memory are available; "
      "at most {} tokens would fit without the weights",
      num_blocks * kKvBlockTokens, token_bytes, static_cast<double>(num_bytes) / kGib,
      static_cast<double>(available_bytes) / kGib,
      available_bytes / token_bytes / kKvBlockTokens * kKvBlockTokens);
}

}  // namespace lockstep::worker
