#include "router/fleet/placement.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "common/check.h"
#include "common/hash.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep::router {

std::optional<PlacementPolicy> ParsePlacementPolicy(std::string_view name) {
  if (name == "prefix") return PlacementPolicy::kPrefixAware;
  if (name == "least-loaded") return PlacementPolicy::kLeastLoaded;
  if (name == "round-robin") return PlacementPolicy::kRoundRobin;
  return std::nullopt;
}

absl::Status PlacementConfig::Validate() const {
  Violations violations("placement");
  violations.Require(std::isfinite(max_imbalance) && max_imbalance >= 1 && max_imbalance <= 1000,
                     "max_imbalance: expected 1 to 1000");
  violations.Require(sequence_tokens <= 1u << 20, "sequence_tokens: expected at most 1048576");
  violations.Require(session_affinity_tokens <= 1u << 20,
                     "session_affinity_tokens: expected at most 1048576");
  return violations.ToStatus();
}

Placement::Placement(const PlacementConfig& config) : config_(config) {
  const absl::Status valid = config.Validate();
  LOCKSTEP_CHECK(valid.ok(), "{}", Message(valid));
}

std::optional<uint32_t> Placement::Choose(const PlacementRequest& request,
                                          std::span<const ReplicaLoad> replicas) {
  if (request.suspect) return ForSuspect(request, replicas);
  switch (config_.policy) {
    case PlacementPolicy::kPrefixAware:
      return PrefixAware(request, replicas);
    case PlacementPolicy::kLeastLoaded:
      return LeastLoaded(request, replicas);
    case PlacementPolicy::kRoundRobin:
      return NextInTurn(replicas);
  }
  return std::nullopt;
}

uint64_t Placement::LoadOf(const ReplicaLoad& replica) const {
  return replica.queued_tokens + uint64_t{replica.num_sequences} * config_.sequence_tokens;
}

std::optional<uint32_t> Placement::NextInTurn(std::span<const ReplicaLoad> replicas) {
  const auto count = static_cast<uint32_t>(replicas.size());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t replica = (turn_ + i) % count;
    if (!replicas[replica].eligible) continue;
    turn_ = (replica + 1) % count;
    return replica;
  }
  return std::nullopt;
}

std::optional<uint32_t> Placement::LeastLoaded(const PlacementRequest& request,
                                               std::span<const ReplicaLoad> replicas) const {
  std::optional<uint32_t> best;
  const auto rank = [&](uint32_t i) {
    return std::tuple(LoadOf(replicas[i]), Draw(request.key, i), i);
  };
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i].eligible && (!best.has_value() || rank(i) < rank(*best))) best = i;
  }
  return best;
}

std::optional<uint32_t> Placement::PrefixAware(const PlacementRequest& request,
                                               std::span<const ReplicaLoad> replicas) const {
  const uint64_t limit = LoadLimit(replicas);
  std::optional<uint32_t> best;
  // Ties go to the longer prefix, then to the replica with more free blocks, then to the draw.
  const auto rank = [&](uint32_t i) {
    const ReplicaLoad& replica = replicas[i];
    return std::tuple(CostOf(request, replica), ~replica.cached_tokens, ~replica.free_blocks,
                      Draw(request.key, i), i);
  };
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    if (!replicas[i].eligible || LoadOf(replicas[i]) > limit) continue;
    if (!best.has_value() || rank(i) < rank(*best)) best = i;
  }
  if (request.session == 0 || !best.has_value()) return best;
  const std::optional<uint32_t> home = HomeOf(request.session, replicas);
  if (!home.has_value() || LoadOf(replicas[*home]) > limit) return best;
  const uint64_t best_cost = CostOf(request, replicas[*best]);
  return CostOf(request, replicas[*home]) <= best_cost + config_.session_affinity_tokens ? home
                                                                                         : best;
}

// Rendezvous hashing: when a replica comes or goes, only its own sessions move.
std::optional<uint32_t> Placement::HomeOf(uint64_t session,
                                          std::span<const ReplicaLoad> replicas) const {
  std::optional<uint32_t> home;
  for (uint32_t i = 0; i < replicas.size(); ++i) {
    if (!replicas[i].eligible) continue;
    if (!home.has_value() || Draw(session, i) > Draw(session, *home)) home = i;
  }
  return home;
}

std::optional<uint32_t> Placement::ForSuspect(const PlacementRequest& request,
                                              std::span<const ReplicaLoad> replicas) {
  if (!quarantine_.has_value() || *quarantine_ >= replicas.size() ||
      !replicas[*quarantine_].eligible) {
    quarantine_ = LeastLoaded(request, replicas);
  }
  return quarantine_;
}

uint64_t Placement::CostOf(const PlacementRequest& request, const ReplicaLoad& replica) const {
  const uint32_t cached = std::min(replica.cached_tokens, request.num_known_tokens);
  const uint64_t to_compute = request.num_known_tokens - cached;
  const uint64_t room = uint64_t{replica.available_blocks} * replica.block_size_tokens;
  const uint64_t to_wait_for = to_compute > room ? to_compute - room : 0;
  const auto weighted = static_cast<uint64_t>(kComputeWeight * static_cast<double>(to_compute));
  return LoadOf(replica) + weighted + to_wait_for;
}

// The least loaded replica is never above the mean, so at least one is always below the limit.
uint64_t Placement::LoadLimit(std::span<const ReplicaLoad> replicas) const {
  double sum = 0;
  uint32_t count = 0;
  for (const ReplicaLoad& replica : replicas) {
    if (!replica.eligible) continue;
    sum += static_cast<double>(LoadOf(replica));
    ++count;
  }
  if (count == 0) return 0;
  const double limit = std::ceil(sum / count * config_.max_imbalance);
  constexpr double kLargest = 9e18;  // below 2^63: the slack still fits
  return static_cast<uint64_t>(std::min(limit, kLargest)) + config_.imbalance_slack_tokens;
}

uint64_t Placement::Draw(uint64_t key, uint32_t replica) const {
  return CombineHashes(CombineHashes(config_.seed, key), replica);
}

}  // namespace lockstep::router
