#include "worker/model/plan/kv_group_plan.h"

#include <algorithm>

#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {
namespace {

int64_t BlocksFor(int64_t num_tokens) {
  return (num_tokens + kernels::kKvBlockTokens - 1) / kernels::kKvBlockTokens;
}

}  // namespace

uint64_t KvGroupPlan::CpuLayerBlockBytes() const {
  return static_cast<uint64_t>(kernels::KvBlockBytes(type, num_kv_heads, head_dim));
}

uint64_t KvGroupPlan::CudaLayerBlockBytes() const {
  return static_cast<uint64_t>(num_kv_heads * kernels::DeviceKvHeadBytes(type, head_dim));
}

uint64_t KvGroupPlan::CpuBlockBytes() const { return layers.size() * CpuLayerBlockBytes(); }

uint64_t KvGroupPlan::CudaBlockBytes() const { return layers.size() * CudaLayerBlockBytes(); }

std::string_view KvTypeName(kernels::KvType type) {
  return type == kernels::KvType::kFp8 ? "fp8_e4m3" : "bf16";
}

int64_t NumPoolBlocks(const KvGroupPlan& group, const KvPoolBounds& bounds) {
  if (group.window_tokens == 0) return bounds.num_kv_blocks;
  const int64_t of_sequence = BlocksFor(group.window_tokens - 1) + 2;
  const int64_t needed = bounds.max_slots * of_sequence + 2 * BlocksFor(bounds.max_step_tokens);
  return std::max(of_sequence, std::min(bounds.num_kv_blocks, needed + needed / 4));
}

}  // namespace lockstep::worker
