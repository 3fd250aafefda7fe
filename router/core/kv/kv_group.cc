#include "router/core/kv/kv_group.h"

#include "common/status.h"

namespace lockstep::router {

absl::Status KvGroup::Validate() const {
  if (block_size_tokens == 0) return InvalidArgument("block_size_tokens is 0, expected at least 1");
  if (num_blocks == 0) return InvalidArgument("num_blocks is 0, expected at least 1");
  if (has_window() != (window_tokens > 0)) {
    return InvalidArgument("window_tokens is {}, expected {}", window_tokens,
                           has_window() ? "at least 1" : "0 without a window");
  }
  // A lone sequence must always get the block of its next token.
  if (has_window() && num_blocks < uint64_t{NumWindowBlocks()} + 2) {
    return InvalidArgument("num_blocks is {}, a window of {} tokens needs at least {}", num_blocks,
                           window_tokens, NumWindowBlocks() + 2);
  }
  return absl::OkStatus();
}

absl::Status Validate(const KvGroups& groups) {
  if (groups.empty()) return InvalidArgument("kv_groups: none, expected at least 1");
  for (size_t i = 0; i < groups.size(); ++i) {
    const KvGroup& group = groups[i];
    if (absl::Status status = group.Validate(); !status.ok()) {
      return Annotate(status, fmt::format("kv_groups[{}]", i));
    }
    if (group.block_size_tokens != groups.front().block_size_tokens) {
      return Unimplemented("kv_groups[{}]: blocks of {} tokens beside blocks of {}", i,
                           group.block_size_tokens, groups.front().block_size_tokens);
    }
    if (group.retention == Retention::kState) {
      return Unimplemented("kv_groups[{}]: a state in place of KV", i);
    }
  }
  if (groups.front().retention != Retention::kAll) {
    return Unimplemented("kv_groups[0]: a first group that does not keep all tokens");
  }
  return absl::OkStatus();
}

}  // namespace lockstep::router
