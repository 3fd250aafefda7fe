#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <utility>

#include "kernels/kv_cache/paged_kv.h"
#include "worker/memory/page_buffer.h"
#include "worker/model/plan/kv_group_plan.h"

namespace lockstep::worker {

// Owns the bytes of the paged KV cache, layer by layer. Only the router knows which sequence uses
// which block. A block keeps what was last written to it.
class CpuKvPool {
 public:
  static absl::StatusOr<CpuKvPool> Create(const KvGroupPlan& group, int64_t num_blocks);

  kernels::PagedKv Layer(int64_t layer) const;
  // All elements, for tests that poison unused blocks.
  std::span<kernels::BFloat16> elements() const;

 private:
  CpuKvPool(const kernels::PagedKv& first_layer, PageBuffer buffer)
      : first_layer_(first_layer), buffer_(std::move(buffer)) {}

  kernels::PagedKv first_layer_;
  PageBuffer buffer_;
};

// RESOURCE_EXHAUSTED with the arithmetic if the cache is larger than the memory that is available.
absl::Status CheckKvCacheFits(const KvGroupPlan& group, int64_t num_blocks,
                              uint64_t available_bytes);

}  // namespace lockstep::worker
