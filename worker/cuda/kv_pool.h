#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "kernels/device/device_buffer.h"
#include "kernels/kv_cache/paged_kv.h"
#include "worker/model/plan/kv_group_plan.h"

namespace lockstep::worker {

// The paged KV cache in device memory, layer by layer, as the CUDA kernels read it. The content of
// a block is unspecified until it is written.
class CudaKvPool {
 public:
  CudaKvPool() = default;
  // RESOURCE_EXHAUSTED naming the size.
  static absl::StatusOr<CudaKvPool> Create(const KvGroupPlan& group, int64_t num_blocks);

  kernels::PagedKv Layer(int64_t layer) const;
  size_t num_bytes() const { return buffer_.num_bytes(); }
  std::byte* data() const { return buffer_.data(); }

 private:
  CudaKvPool(const KvGroupPlan& group, int64_t num_blocks, kernels::DeviceBuffer buffer)
      : group_(group), num_blocks_(num_blocks), buffer_(std::move(buffer)) {}

  KvGroupPlan group_;
  int64_t num_blocks_ = 0;
  kernels::DeviceBuffer buffer_;
};

}  // namespace lockstep::worker
