#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "common/runtime/mutex.h"
#include "router/core/kv/kv_group.h"
#include "router/core/kv/prefix_changes.h"
#include "router/core/kv/prefix_root.h"

namespace lockstep::router {

// Which replicas hold which prefix. Joins the prefix indexes of all replicas in one table, with the
// blocks of every KV group, each as its loop last reported it. Loops never wait for the table: if a
// reader holds it, they report later. Safe to use from any thread. Its size is bounded by the
// replicas' blocks.
class PrefixDirectory {
 public:
  explicit PrefixDirectory(uint32_t max_replicas);

  // Takes changes of a replica's index, a bounded number at a time. Returns false if some are left,
  // because a reader held the table or there were too many.
  bool TryTell(uint32_t replica, PrefixChanges& changes);

  // Sets, for each replica in `num_cached_tokens`, the length in tokens of the longest prefix of
  // `tokens` that the replica can reuse. Only full blocks count. Every group must serve the prefix,
  // by the rule of CommonPrefix. `groups`: block size and windows. Only lengths of replicas with
  // such groups mean something.
  void Match(const PrefixRoot& root, std::span<const KvGroup> groups,
             std::span<const TokenId> tokens, std::span<uint32_t> num_cached_tokens) const;

  size_t num_prefixes() const;

 private:
  // One bit per replica, up to the highest replica that was ever in the set. So a small fleet needs
  // few words, even if many replicas are allowed.
  using ReplicaSet = absl::InlinedVector<uint64_t, 1>;
  static bool Contains(const ReplicaSet& replicas, size_t replica);

  // Cuts the lengths in blocks of `prefixes` down to what every further group can serve.
  void Shorten(std::span<const KvGroup> groups, std::span<const uint64_t> prefixes,
               std::span<uint32_t> num_blocks) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(uint32_t replica, uint64_t prefix, bool learned) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t max_replicas_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint64_t, ReplicaSet> holders_ ABSL_GUARDED_BY(mutex_);  // no set is empty
};

}  // namespace lockstep::router
