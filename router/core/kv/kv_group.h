#pragma once

#include <absl/container/inlined_vector.h>
#include <absl/status/status.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "common/ids.h"

namespace lockstep::router {

// How long a layer needs the KV of a token: for ever, until it lies behind the window, or not at
// all, because a state of fixed size holds everything that was read.
enum class Retention { kAll, kWindow, kState };

// Layers that share one block pool of a worker.
struct KvGroup {
  uint32_t block_size_tokens = 16;
  uint32_t num_blocks = 0;
  Retention retention = Retention::kAll;
  uint32_t window_tokens = 0;  // kWindow: a token reads itself and the window_tokens - 1 before it

  bool has_window() const { return retention == Retention::kWindow; }
  // Blocks that lie in the window of the next token after so many full ones.
  uint32_t NumWindowBlocks() const {
    return static_cast<uint32_t>((uint64_t{window_tokens} + block_size_tokens - 2) /
                                 block_size_tokens);
  }
  // A sequence begins with so many full blocks. Nothing reads this number of them any more. The
  // token after the full blocks has its whole window, so the sequence can be resumed there.
  uint32_t NumBehind(uint32_t num_full_blocks) const {
    if (!has_window()) return 0;
    const uint32_t num_needed = NumWindowBlocks();
    return num_full_blocks > num_needed ? num_full_blocks - num_needed : 0;
  }
  absl::Status Validate() const;
};

// A group as workers describe it. window_tokens: 0 for a group that keeps all tokens.
inline KvGroup MakeKvGroup(uint32_t block_size_tokens, uint32_t num_blocks,
                           uint32_t window_tokens) {
  return {.block_size_tokens = block_size_tokens,
          .num_blocks = num_blocks,
          .retention = window_tokens > 0 ? Retention::kWindow : Retention::kAll,
          .window_tokens = window_tokens};
}

// The groups of a worker. Most have one.
using KvGroups = absl::InlinedVector<KvGroup, 1>;
// UNIMPLEMENTED names what no code does yet.
absl::Status Validate(const KvGroups& groups);

// A number of blocks for each group.
using BlockCountByGroup = absl::InlinedVector<uint64_t, 1>;

// An entry of a block table without a block, because every token in it lies behind the window. Must
// never be read.
inline constexpr BlockId kNoBlock = std::numeric_limits<BlockId>::max();

// A stretch of a sequence's block table in one group, as a step tells it to the worker.
struct GroupBlocks {
  uint32_t group = 0;
  uint32_t first = 0;  // place of the first block in the table; earlier places are never read
  std::vector<BlockId> ids = {};
};

}  // namespace lockstep::router
