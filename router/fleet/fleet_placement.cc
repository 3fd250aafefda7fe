// Decides which replica a request goes to.
#include <algorithm>
#include <utility>

#include "common/hash.h"
#include "router/fleet/fleet.h"

namespace lockstep::router {
namespace {

// Equal session ids of different tenants are different sessions.
uint64_t SessionOf(const Request& request) {
  if (request.session_id.empty()) return 0;
  return std::max<uint64_t>(Hash64(request.session_id, Hash64(request.tenant)), 1);
}

}  // namespace

PlacementQuery PlacementQuery::ForNew(const Request& request) {
  PlacementQuery query = {.request = &request, .known_tokens = request.prompt_tokens};
  // If prompt log-probabilities are wanted, the prompt is computed.
  if (request.sampling.num_prompt_logprobs >= 0) query.max_cached_tokens = 0;
  return query;
}

bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits) {
  const Request& request = *query.request;
  return request.max_total_tokens() <= limits.max_context_tokens &&
         std::max(request.prompt_tokens.size(), query.known_tokens.size()) <=
             limits.max_cached_tokens();
}

Readiness Fleet::ReadinessOf(uint32_t replica) const {
  const Seat& seat = *seats_[replica];
  const Readiness readiness = seat.readiness.load();
  return seat.occupancy.load() == Occupancy::kTaken ? readiness : Readiness::kAway;
}

std::optional<Fleet::Lease> Fleet::MatchLease(uint32_t replica, const PlacementQuery& query) const {
  Seat& seat = *seats_[replica];
  MutexLock lock(seat.mutex);
  if (!seat.lease.has_value() || !FitsWorker(query, seat.lease->limits)) return std::nullopt;
  if (query.bits.has_value() && *query.bits != seat.lease->bits) return std::nullopt;
  return seat.lease;
}

bool Fleet::AnyOtherReady(uint32_t replica) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (i != replica && ReadinessOf(i) >= Readiness::kTrial) return true;
  }
  return false;
}

bool Fleet::AnyOtherTakes(uint32_t replica, const PlacementQuery& query) {
  for (uint32_t i = 0; i < size(); ++i) {
    if (i == replica || ReadinessOf(i) < Readiness::kTrial) continue;
    if (MatchLease(i, query).has_value()) return true;
  }
  return false;
}

std::optional<uint32_t> Fleet::FindOther(uint32_t replica, const PlacementQuery& query) {
  return Find(query, replica);
}

std::optional<uint32_t> Fleet::FindOtherOrRoom(uint32_t replica, const PlacementQuery& query) {
  const std::optional<uint32_t> open = Find(query, replica);
  return open.has_value() ? open : FindRoom(query, replica);
}

ReplicaLoad Fleet::LoadOf(uint32_t replica, uint32_t block_size_tokens) const {
  const Seat& seat = *seats_[replica];
  const auto relaxed = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  return {.eligible = true,
          .queued_tokens = relaxed(seat.queued_tokens) + relaxed(seat.underway_tokens),
          .num_sequences = relaxed(seat.num_sequences) + relaxed(seat.num_underway),
          .available_blocks = relaxed(seat.available_blocks),
          .free_blocks = relaxed(seat.free_blocks),
          .block_size_tokens = block_size_tokens};
}

std::optional<uint32_t> Fleet::Find(const PlacementQuery& query, std::optional<uint32_t> except) {
  std::vector<ReplicaLoad> replicas(size());
  std::vector<uint32_t> busy_on_trial;
  uint32_t num_eligible = 0;
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    const Readiness readiness = ReadinessOf(i);
    if (i == except || readiness < Readiness::kTrial) continue;
    const std::optional<Lease> lease = MatchLease(i, query);
    if (!lease.has_value()) continue;
    replicas[i] = LoadOf(i, lease->limits.block_size_tokens());
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
  if (num_eligible > 1) FillCachedTokens(query, replicas);
  const PlacementRequest request = {
      .key = query.request->key,
      .num_known_tokens = static_cast<uint32_t>(query.known_tokens.size()),
      .suspect = query.suspect,
      .session = SessionOf(*query.request)};
  MutexLock lock(placement_mutex_);
  return placement_.Choose(request, replicas);
}

// Finds a replica whose worker drains and could continue the request. If there is none, the replica
// that lost such a worker last.
std::optional<uint32_t> Fleet::FindRoom(const PlacementQuery& query,
                                        std::optional<uint32_t> except) const {
  const auto rank = [this](uint32_t replica) {
    const Seat& seat = *seats_[replica];
    return std::pair(seat.readiness.load(), seat.closed_order.load());
  };
  std::optional<uint32_t> room;
  for (uint32_t i = 0; i < size(); ++i) {
    const bool there = seats_[i]->occupancy.load() == Occupancy::kTaken;
    if (i == except || !there || !MatchLease(i, query).has_value()) continue;
    if (!room.has_value() || rank(i) > rank(*room)) room = i;
  }
  return room;
}

// Where a new request waits for a worker, or learns why it cannot be served. First choice: a
// replica whose last worker was large enough. Otherwise a replica where the request does not fit: a
// replica whose worker drains, or else the replica that lost its worker last.
std::optional<uint32_t> Fleet::FindRoomForNew(const PlacementQuery& query) const {
  if (const std::optional<uint32_t> room = FindRoom(query, std::nullopt)) return room;
  const auto rank = [this](uint32_t replica) {
    return std::pair(ReadinessOf(replica), seats_[replica]->closed_order.load());
  };
  std::optional<uint32_t> room;
  for (uint32_t i = 0; i < size(); ++i) {
    if (seats_[i]->occupancy.load() != Occupancy::kTaken) continue;
    if (!room.has_value() || rank(i) > rank(*room)) room = i;
  }
  return room;
}

// Looks once for each block size, because prefixes with different block sizes do not match.
void Fleet::FillCachedTokens(const PlacementQuery& query, std::span<ReplicaLoad> replicas) const {
  if (config_.policy != PlacementPolicy::kPrefixAware || query.request->bypass_prefix_cache ||
      query.known_tokens.empty()) {
    return;
  }
  const size_t num_tokens =
      std::min<size_t>(query.max_cached_tokens, query.known_tokens.size() - 1);
  std::vector<uint32_t> cached(replicas.size());
  std::vector<uint32_t> block_sizes;
  for (const ReplicaLoad& replica : replicas) {
    if (replica.eligible && !std::ranges::count(block_sizes, replica.block_size_tokens)) {
      block_sizes.push_back(replica.block_size_tokens);
    }
  }
  for (const uint32_t block_size : block_sizes) {
    directory_.Match(query.request->prefix_root, block_size, query.known_tokens.first(num_tokens),
                     cached);
    for (size_t i = 0; i < replicas.size(); ++i) {
      if (replicas[i].block_size_tokens == block_size) replicas[i].cached_tokens = cached[i];
    }
  }
}

}  // namespace lockstep::router
