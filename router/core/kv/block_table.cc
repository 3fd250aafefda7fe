#include "router/core/kv/block_table.h"

#include <utility>

#include "router/core/kv/kv_cache.h"

namespace lockstep::router {

BlockTable::BlockTable(BlockTable&& other) noexcept { *this = std::move(other); }

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
  if (this == &other) return *this;
  if (cache_ != nullptr) cache_->Release(*this);
  cache_ = std::exchange(other.cache_, nullptr);
  groups_ = std::exchange(other.groups_, {});
  num_covered_ = std::exchange(other.num_covered_, 0);
  fenced_ = std::exchange(other.fenced_, false);
  has_untold_ = std::exchange(other.has_untold_, false);
  return *this;
}

BlockTable::~BlockTable() {
  if (cache_ != nullptr) cache_->Release(*this);
}

std::vector<GroupBlocks> BlockTable::TakeUntold() {
  std::vector<GroupBlocks> untold;
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.num_told == group.ids.size()) continue;
    untold.push_back({.group = i,
                      .first = group.num_told,
                      .ids = {group.ids.begin() + group.num_told, group.ids.end()}});
    group.num_told = static_cast<uint32_t>(group.ids.size());
  }
  has_untold_ = false;
  return untold;
}

}  // namespace lockstep::router
