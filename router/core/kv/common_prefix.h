#pragma once

#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "router/core/kv/kv_group.h"

namespace lockstep::router {

// The rule of reuse: how many blocks of a prefix every KV group can serve. Goes through the blocks
// that the first group holds, from the first one on. A group that keeps all tokens needs all of
// these blocks. A group with a window needs those of the window before the end. So the usable
// length may lie behind a missing block, if a whole window follows it.
class CommonPrefix {
 public:
  // `groups`: all of them, the first one included. They outlive this object.
  explicit CommonPrefix(std::span<const KvGroup> groups)
      : groups_(groups), num_in_a_row_(groups.size(), 0) {}

  // The next block of the prefix. has_block(group): whether the group has it too. Asked for every
  // group but the first.
  template <typename HasBlock>
  void Add(const HasBlock& has_block) {
    ++num_blocks_;
    bool serves = true;
    for (uint32_t group = 1; group < groups_.size(); ++group) {
      num_in_a_row_[group] = has_block(group) ? num_in_a_row_[group] + 1 : 0;
      serves =
          serves && num_in_a_row_[group] >= num_blocks_ - groups_[group].NumBehind(num_blocks_);
    }
    if (serves) num_usable_ = num_blocks_;
  }

  uint32_t num_usable() const { return num_usable_; }

 private:
  std::span<const KvGroup> groups_;
  absl::InlinedVector<uint32_t, 4> num_in_a_row_;  // blocks up to the last one, by group
  uint32_t num_blocks_ = 0;
  uint32_t num_usable_ = 0;
};

}  // namespace lockstep::router
