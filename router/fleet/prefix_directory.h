#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/runtime/mutex.h"
#include "router/core/kv/prefix_changes.h"

namespace lockstep::router {

// Which replicas hold which prefix: the prefix indexes of all replicas as one table, each as its
// loop last told. Loops never wait for it: what they cannot tell while a reader looks, they tell
// later. Safe to use from any thread. Bounded by the replicas' blocks.
class PrefixDirectory {
 public:
  explicit PrefixDirectory(uint32_t max_replicas);

  // Takes changes of a replica's index, a bounded number at a time. False when some are left: a
  // reader was looking, or there were many.
  bool TryTell(uint32_t replica, PrefixChanges& changes);

  // Sets, per replica, the length in tokens of the longest prefix of full blocks of `tokens` that
  // it holds. Of the replicas that there is room for.
  void Match(std::string_view salt, uint32_t block_size_tokens, std::span<const TokenId> tokens,
             std::span<uint32_t> num_cached_tokens) const;

  size_t num_prefixes() const;

 private:
  // A bit per replica, as far as the highest that ever was in it: few words for a small fleet,
  // however many replicas there may be.
  using ReplicaSet = absl::InlinedVector<uint64_t, 1>;

  void Tell(uint32_t replica, uint64_t prefix, bool learned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t max_replicas_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, ReplicaSet> holders_ ABSL_GUARDED_BY(mutex_);  // never empty sets
};

}  // namespace lockstep::router
