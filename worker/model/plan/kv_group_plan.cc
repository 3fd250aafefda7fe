#include "worker/model/plan/kv_group_plan.h"

#include "kernels/kv_cache/device_paged_kv.h"
#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {
namespace {

uint64_t BytesInLayers(const KvGroupPlan& group, int64_t block_elements) {
  return group.layers.size() * static_cast<uint64_t>(block_elements) * sizeof(kernels::BFloat16);
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

}  // namespace lockstep::worker
