#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {

// Of a paged KV cache, on any device.
struct KvPoolShape {
  int64_t num_layers = 0;
  int64_t num_blocks = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;

  int64_t LayerElements() const {
    return num_blocks * kernels::KvBlockElements(num_kv_heads, head_dim);
  }
  uint64_t bytes() const {
    return static_cast<uint64_t>(num_layers * LayerElements()) * sizeof(kernels::BFloat16);
  }
};

// RESOURCE_EXHAUSTED with the arithmetic if the cache is larger than the memory that is available.
absl::Status CheckKvCacheFits(const KvPoolShape& shape, uint64_t available_bytes);

}  // namespace lockstep::worker
