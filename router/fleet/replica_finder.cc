#include "router/fleet/replica_finder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/hash.h"

namespace lockstep::router {
namespace {

// Equal session ids of different tenants are different sessions.
uint64_t SessionOf(const Request& request) {
  if (request.session_id.empty()) return 0;
  return std::max<uint64_t>(Hash64(request.session_id, Hash64(request.tenant)), 1);
}

// Whether the same rule says what two replicas can reuse of a prefix. Their pools may differ.
bool HaveSamePrefixes(const KvGroups& a, const KvGroups& b) {
  return std::ranges::equal(a, b, [](const KvGroup& one, const KvGroup& other) {
    return one.block_size_tokens == other.block_size_tokens &&
           one.window_tokens == other.window_tokens;
  });
}

}  // namespace

std::optional<uint32_t> ReplicaFinder::Find(const PlacementQuery& query,
                                            std::optional<uint32_t> except) {
  std::vector<ReplicaLoad> replicas(seats_.size());
  std::vector<KvGroups> kv_groups(replicas.size());
  std::vector<uint32_t> busy_on_trial;
  uint32_t num_eligible = 0;
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    const Readiness readiness = seats_.ReadinessOf(i);
    if (i == except || readiness < Readiness::kTrial) continue;
    const std::optional<Seats::Lease> lease = seats_.MatchLease(i, query);
    if (!lease.has_value()) continue;
    replicas[i] = seats_.LoadOf(i, lease->limits.block_size_tokens());
    kv_groups[i] = lease->limits.kv_groups;
    if (readiness == Readiness::kTrial && replicas[i].num_sequences > 0) {
      replicas[i].eligible = false;
      busy_on_trial.push_back(i);
    } else {
      ++num_eligible;
    }
  }
  if (num_eligible == 0) {
    for (const uint32_t i : busy_on_trial) replicas[i].eligible = true;
    num_eligible = static_cast<uint32_t>(busy_on_trial.size());
  }
  if (num_eligible > 1) FillCachedTokens(query, kv_groups, replicas);
  const PlacementRequest request = {
      .key = query.request->key,
      .num_known_tokens = static_cast<uint32_t>(query.known_tokens.size()),
      .suspect = query.suspect,
      .session = SessionOf(*query.request)};
  MutexLock lock(mutex_);
  return placement_.Choose(request, replicas);
}

std::optional<uint32_t> ReplicaFinder::FindRoom(const PlacementQuery& query,
                                                std::optional<uint32_t> except) const {
  const auto rank = [this](uint32_t replica) {
    return std::pair(seats_.LastReadinessOf(replica), seats_.ClosedOrderOf(replica));
  };
  std::optional<uint32_t> room;
  for (uint32_t i = 0; i < seats_.size(); ++i) {
    const bool there = seats_.TakesRequests(i);
    if (i == except || !there || !seats_.MatchLease(i, query).has_value()) continue;
    if (!room.has_value() || rank(i) > rank(*room)) room = i;
  }
  return room;
}

std::optional<uint32_t> ReplicaFinder::FindRoomForNew(const PlacementQuery& query) const {
  if (const std::optional<uint32_t> room = FindRoom(query, std::nullopt)) return room;
  const auto rank = [this](uint32_t replica) {
    return std::pair(seats_.ReadinessOf(replica), seats_.ClosedOrderOf(replica));
  };
  std::optional<uint32_t> room;
  for (uint32_t i = 0; i < seats_.size(); ++i) {
    if (!seats_.TakesRequests(i)) continue;
    if (!room.has_value() || rank(i) > rank(*room)) room = i;
  }
  return room;
}

// Looks once for each set of replicas with comparable prefixes. Almost always all are one set.
void ReplicaFinder::FillCachedTokens(const PlacementQuery& query,
                                     std::span<const KvGroups> kv_groups,
                                     std::span<ReplicaLoad> replicas) const {
  if (config_.policy != PlacementPolicy::kPrefixAware || query.request->bypass_prefix_cache ||
      query.known_tokens.empty()) {
    return;
  }
  const size_t num_tokens =
      std::min<size_t>(query.max_cached_tokens, query.known_tokens.size() - 1);
  std::vector<uint32_t> cached(replicas.size());
  std::vector<bool> done(replicas.size(), false);
  for (size_t first = 0; first < replicas.size(); ++first) {
    if (!replicas[first].eligible || done[first]) continue;
    directory_.Match(query.request->prefix_root, kv_groups[first],
                     query.known_tokens.first(num_tokens), cached);
    for (size_t i = first; i < replicas.size(); ++i) {
      if (!HaveSamePrefixes(kv_groups[i], kv_groups[first])) continue;
      replicas[i].cached_tokens = cached[i];
      done[i] = true;
    }
  }
}

}  // namespace lockstep::router
