#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <utility>

#include "kernels/kv_cache/paged_kv.h"
#include "worker/memory/kv_pool_shape.h"
#include "worker/memory/page_buffer.h"

namespace lockstep::worker {

// Owns the bytes of the paged KV cache, layer by layer. Only the router knows which sequence uses
// which block. A block keeps what was last written to it.
class CpuKvPool {
 public:
  static absl::StatusOr<CpuKvPool> Create(const KvPoolShape& shape);

  kernels::PagedKv Layer(int64_t layer) const;
  // All elements, for tests that poison unused blocks.
  std::span<kernels::BFloat16> elements() const;

 private:
  CpuKvPool(const KvPoolShape& shape, PageBuffer buffer)
      : shape_(shape), buffer_(std::move(buffer)) {}

  KvPoolShape shape_;
  PageBuffer buffer_;
};

}  // namespace lockstep::worker
