#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/kv_cache/paged_kv.h"
#include "worker/memory/page_buffer.h"
#include "worker/model/forward_model.h"
#include "worker/model/plan/kv_group_plan.h"

namespace lockstep::worker {

// Owns the bytes of the paged KV cache: a pool for each KV group, with one layer after the other.
// Only the router knows which sequence uses which block. A block keeps its last contents.
class CpuKvPool {
 public:
  // `infos` has the number of blocks of each group.
  static absl::StatusOr<CpuKvPool> Create(std::span<const KvGroupPlan> groups,
                                          std::span<const KvGroupInfo> infos);

  // The layer that has this index in its group.
  kernels::PagedKv Layer(size_t group, int64_t index) const;
  // All layers. Tests poison unused blocks: bytes of 0xFF are no number, as codes and as bf16.
  std::span<std::byte> bytes() const;

 private:
  CpuKvPool(std::vector<kernels::PagedKv> first_layers, PageBuffer buffer)
      : first_layers_(std::move(first_layers)), buffer_(std::move(buffer)) {}

  std::vector<kernels::PagedKv> first_layers_;  // of each group
  PageBuffer buffer_;
};

// RESOURCE_EXHAUSTED with the arithmetic if the cache is larger than the memory that is available.
absl::Status CheckKvCacheFits(std::span<const KvGroupPlan> groups,
                              std::span<const KvGroupInfo> infos, uint64_t available_bytes);

}  // namespace lockstep::worker
