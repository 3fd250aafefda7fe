#include "worker/model/plan/kv_group_plan.h"

#include <algorithm>

#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {
namespace {

uint64_t BytesInLayers(const KvGroupPlan& group, int64_t block_elements) {
  return group.layers.size() * static_cast<uint64_t>(block_elements) * sizeof(kernels::BFloat16);
}

int64_t BlocksFor(int64_t num_tokens) {
  return (num_tokens + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

}  // namespace

int64_t KvGroupPlan::CpuBlockElements() const {
  return kernels::KvBlockElements(num_kv_heads, head_dim);
}

int64_t KvGroupPlan::CudaBlockElements() const {
  return num_kv_heads * kernels::DeviceKvHeadElements(head_dim);
}

uint64_t KvGroupPlan::CpuBlockBytes() const { return BytesInLayers(*this, CpuBlockElements()); }

uint64_t KvGroupPlan::CudaBlockBytes() const { return BytesInLayers(*this, CudaBlockElements()); }

int64_t NumPoolBlocks(const KvGroupPlan& group, const KvPoolBounds& bounds) {
  if (group.window_tokens == 0) return bounds.num_kv_blocks;
  const int64_t of_sequence = BlocksFor(group.window_tokens - 1) + 2;
  const int64_t needed = bounds.max_slots * of_sequence + 2 * BlocksFor(bounds.max_step_tokens);
  return std::max(of_sequence, std::min(bounds.num_kv_blocks, needed + needed / 4));
}

}  // namespace lockstep::worker
