#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/kv_cache/kv_type.h"

namespace lockstep::worker {

// Layers that keep their K and V in one pool of blocks. All of them have the same heads.
struct KvGroupPlan {
  int64_t window_tokens = 0;         // the pool keeps the latest ones; 0: all
  std::vector<int64_t> layers = {};  // in order
  int64_t num_kv_heads = 0;          // of this rank, if the plan is a share
  int64_t head_dim = 0;
  kernels::KvType type = kernels::KvType::kBFloat16;

  // Bytes that a block takes in one layer, in the order of each backend.
  uint64_t CpuLayerBlockBytes() const;
  uint64_t CudaLayerBlockBytes() const;
  // Bytes that a block takes in all layers of the group.
  uint64_t CpuBlockBytes() const;
  uint64_t CudaBlockBytes() const;
};

// What a worker says of its KV pools: "bf16" or "fp8_e4m3".
std::string_view KvTypeName(kernels::KvType type);

// The capacity that the pools need.
struct KvPoolBounds {
  int64_t num_kv_blocks = 0;  // of a pool that keeps all tokens
  int64_t max_slots = 0;      // sequences at once
  int64_t max_step_tokens = 0;
};

// The number of blocks of the group's pool. In a pool that keeps a window, every sequence has room
// for its window and two more blocks, and two steps in flight have room for their tokens. A quarter
// is added for unused blocks that stay cached. No pool has more than num_kv_blocks, unless one
// sequence alone needs more.
int64_t NumPoolBlocks(const KvGroupPlan& group, const KvPoolBounds& bounds);

}  // namespace lockstep::worker
