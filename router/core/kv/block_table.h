#pragma once

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "router/core/kv/kv_group.h"

namespace lockstep::router {

class KvCache;

// The blocks of one sequence: a table for each group, in order of position. Each block holds one
// reference, which the destructor gives back. Must not outlive its KvCache.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&& other) noexcept;
  ~BlockTable();

  // With kNoBlock where a block lies behind the window.
  const std::vector<BlockId>& ids(uint32_t group = 0) const { return groups_[group].ids; }
  uint32_t size(uint32_t group = 0) const {
    return groups_.empty() ? 0 : static_cast<uint32_t>(groups_[group].ids.size());
  }
  // How many entries at the front have no block.
  uint32_t num_behind(uint32_t group) const { return groups_[group].num_behind; }
  // The entries that have a block.
  std::span<const BlockId> held(uint32_t group) const {
    return std::span(ids(group)).subspan(groups_[group].num_behind);
  }
  // Entries that every group has.
  uint32_t num_covered() const { return num_covered_; }
  bool fenced() const { return fenced_; }

  bool has_untold() const { return has_untold_; }
  // The blocks that were added since the last call, for the next message to the worker.
  std::vector<GroupBlocks> TakeUntold();

 private:
  friend class KvCache;

  struct Group {
    std::vector<BlockId> ids;
    uint32_t num_behind = 0;
    uint32_t num_told = 0;
  };

  void CountCovered() {
    num_covered_ = size();
    for (uint32_t group = 1; group < groups_.size(); ++group) {
      num_covered_ = std::min(num_covered_, size(group));
    }
  }

  uint32_t num_covered_ = 0;
  bool fenced_ = false;
  bool has_untold_ = false;
  KvCache* cache_ = nullptr;
  absl::InlinedVector<Group, 1> groups_;
};

}  // namespace lockstep::router
