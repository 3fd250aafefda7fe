#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::worker {

// Layers whose K and V lie in one pool of blocks. All of them have the same heads.
struct KvGroupPlan {
  int64_t window_tokens = 0;         // the pool keeps the latest ones; 0: all
  std::vector<int64_t> layers = {};  // in order
  int64_t num_kv_heads = 0;          // of this rank, if the plan is a share
  int64_t head_dim = 0;

  // Elements that a block takes in one layer, in the order of each backend.
  int64_t CpuBlockElements() const;
  int64_t CudaBlockElements() const;
  // Bytes that a block takes in all layers of the group.
  uint64_t CpuBlockBytes() const;
  uint64_t CudaBlockBytes() const;
};

}  // namespace lockstep::worker
