#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/runtime/mutex.h"
#include "router/fleet/placement.h"
#include "router/fleet/prefix_directory.h"
#include "router/fleet/seats.h"

namespace lockstep::router {

// Finds the replica for a request: the best open one, or one where the request may wait for a
// worker. Safe to use from any thread.
class ReplicaFinder {
 public:
  // Both must outlive the object.
  ReplicaFinder(const PlacementConfig& config, const Seats& seats, const PrefixDirectory& directory)
      : config_(config), seats_(seats), directory_(directory), placement_(config) {}

  // The best open replica, without `except`.
  std::optional<uint32_t> Find(const PlacementQuery& query, std::optional<uint32_t> except);
  // A replica with a draining worker that could continue the request. If there is none, the replica
  // that lost such a worker last.
  std::optional<uint32_t> FindRoom(const PlacementQuery& query,
                                   std::optional<uint32_t> except) const;
  // The replica where a new request waits for a worker, or gets the error why it cannot be served.
  // First choice: a replica with a last worker that was large enough. Otherwise the request fits no
  // replica. Then a replica with a draining worker, or else the replica that lost its worker last.
  std::optional<uint32_t> FindRoomForNew(const PlacementQuery& query) const;

 private:
  // `kv_groups`: by replica.
  void FillCachedTokens(const PlacementQuery& query, std::span<const KvGroups> kv_groups,
                        std::span<ReplicaLoad> replicas) const;

  const PlacementConfig config_;
  const Seats& seats_;
  const PrefixDirectory& directory_;
  Mutex mutex_;
  Placement placement_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
