#pragma once

#include <absl/status/statusor.h>

#include <cstdint>

#include "kernels/device/device_buffer.h"
#include "kernels/kv_cache/paged_kv.h"
#include "worker/memory/kv_pool_shape.h"

namespace lockstep::worker {

// The paged KV cache in device memory, layer by layer, as the CUDA kernels read it. The content of
// a block is unspecified until it is written.
class CudaKvPool {
 public:
  CudaKvPool() = default;
  // Bytes that one block takes, over all layers. `shape.num_blocks` is ignored.
  static size_t BlockBytes(const KvPoolShape& shape);
  // RESOURCE_EXHAUSTED naming the size.
  static absl::StatusOr<CudaKvPool> Create(const KvPoolShape& shape);

  kernels::PagedKv Layer(int64_t layer) const;
  size_t num_bytes() const { return buffer_.num_bytes(); }
  std::byte* data() const { return buffer_.data(); }

 private:
  CudaKvPool(const KvPoolShape& shape, kernels::DeviceBuffer buffer)
      : shape_(shape), buffer_(std::move(buffer)) {}

  KvPoolShape shape_;
  kernels::DeviceBuffer buffer_;
};

}  // namespace lockstep::worker
