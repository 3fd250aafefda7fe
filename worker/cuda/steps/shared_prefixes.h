#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/ids.h"
#include "worker/steps/stamp_set.h"

namespace lockstep::worker {

// Tells whether the decode rows of a step have so many keys in common that attention should look
// for them: kernels::PagedDecodeAttentionParams::may_share. Looks only at a few depths of each
// block table. This costs a few words a row, and the answer may be wrong either way.
class SharedPrefixes {
 public:
  explicit SharedPrefixes(size_t num_blocks) : seen_(num_blocks) {}

  void Clear() {
    seen_.Clear();
    num_keys_ = 0;
    num_shared_keys_ = 0;
  }
  // A row that attends to `num_keys` keys, in these blocks.
  void Add(std::span<const BlockId> blocks, uint32_t num_keys);

  // At least an eighth of the keys seem to lie in blocks of earlier rows, too.
  bool AreMany() const { return 8 * num_shared_keys_ >= num_keys_ && num_shared_keys_ > 0; }

 private:
  // Where splits of attention end, see kernels/attention/attention_borders.h.
  static constexpr std::array<uint32_t, 4> kDepths = {128, 512, 2048, 8192};

  StampSet seen_;
  uint64_t num_keys_ = 0;
  uint64_t num_shared_keys_ = 0;
};

}  // namespace lockstep::worker
