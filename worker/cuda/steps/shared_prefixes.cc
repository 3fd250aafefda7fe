#include "worker/cuda/steps/shared_prefixes.h"

#include "kernels/kv_cache/paged_kv.h"

namespace lockstep::worker {

void SharedPrefixes::Add(std::span<const BlockId> blocks, uint32_t num_keys) {
  uint32_t num_shared = 0;
  for (const uint32_t depth : kDepths) {
    const size_t num_blocks = depth / kernels::kKvBlockTokens;
    // A row's last key is its own.
    if (num_keys <= depth || blocks.size() < num_blocks) break;
    if (!seen_.Insert(blocks[num_blocks - 1])) num_shared = depth;
  }
  num_keys_ += num_keys;
  num_shared_keys_ += num_shared;
}

}  // namespace lockstep::worker
