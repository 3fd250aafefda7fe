#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>

#include "kernels/kv_cache/paged_kv.h"
#include "worker/memory/page_buffer.h"

namespace lockstep::worker {

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

// Owns the bytes of the paged KV cache, layer by layer. Which sequence uses which block is the
// router's knowledge; a block holds whatever was last written to it.
class KvPool {
 public:
  static absl::StatusOr<KvPool> Create(const KvPoolShape& shape);

  kernels::PagedKv Layer(int64_t layer) const;
  // Everything, for tests that poison what is not in use.
  std::span<kernels::BFloat16> elements() const;

 private:
  KvPool(const KvPoolShape& shape, PageBuffer buffer) : shape_(shape), buffer_(std::move(buffer)) {}

  KvPoolShape shape_;
  PageBuffer buffer_;
};

}  // namespace lockstep::worker
