#include "worker/cpu/kv_pool.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

using kernels::kKvBlockTokens;

uint64_t NumBytes(std::span<const KvGroupPlan> groups, std::span<const KvGroupInfo> infos) {
  uint64_t num_bytes = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    num_bytes += infos[i].num_blocks * groups[i].CpuBlockBytes();
  }
  return num_bytes;
}

}  // namespace

absl::StatusOr<CpuKvPool> CpuKvPool::Create(std::span<const KvGroupPlan> groups,
                                            std::span<const KvGroupInfo> infos) {
  auto buffer = PageBuffer::Allocate(NumBytes(groups, infos));
  if (!buffer.ok()) {
    return Annotate(buffer.status(),
                    fmt::format("KV cache of {} blocks", infos.front().num_blocks));
  }
  std::vector<kernels::PagedKv> first_layers;
  std::byte* data = buffer->bytes().data();
  for (size_t i = 0; i < groups.size(); ++i) {
    first_layers.push_back({.data = data,
                            .num_blocks = infos[i].num_blocks,
                            .num_kv_heads = groups[i].num_kv_heads,
                            .head_dim = groups[i].head_dim,
                            .type = groups[i].type});
    data += infos[i].num_blocks * groups[i].CpuBlockBytes();
  }
  return CpuKvPool(std::move(first_layers), *std::move(buffer));
}

kernels::PagedKv CpuKvPool::Layer(size_t group, int64_t index) const {
  kernels::PagedKv kv = first_layers_[group];
  kv.data = kernels::KvHead(kv, index * kv.num_blocks, /*kv_head=*/0);
  return kv;
}

std::span<std::byte> CpuKvPool::bytes() const { return buffer_.bytes(); }

absl::Status CheckKvCacheFits(std::span<const KvGroupPlan> groups,
                              std::span<const KvGroupInfo> infos, uint64_t available_bytes) {
  const uint64_t num_bytes = NumBytes(groups, infos);
  if (num_bytes <= available_bytes) return absl::OkStatus();
  const uint64_t num_tokens = uint64_t{infos.front().num_blocks} * kKvBlockTokens;
  const uint64_t token_bytes = num_bytes / num_tokens;
  constexpr double kGib = 1 << 30;
  return ResourceExhausted(
      "the KV cache: {} tokens of {} bytes are {:.1f} GiB, and {:.1f} GiB of memory are available; "
      "at most {} tokens would fit without the weights",
      num_tokens, token_bytes, static_cast<double>(num_bytes) / kGib,
      static_cast<double>(available_bytes) / kGib,
      available_bytes / token_bytes / kKvBlockTokens * kKvBlockTokens);
}

}  // namespace lockstep::worker
