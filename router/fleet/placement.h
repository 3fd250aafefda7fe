#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/ids.h"

namespace lockstep::router {

// The two besides prefix-aware are what it is measured against.
enum class PlacementPolicy { kPrefixAware, kLeastLoaded, kRoundRobin };

// prefix, least-loaded, round-robin.
std::optional<PlacementPolicy> ParsePlacementPolicy(std::string_view name);

struct PlacementConfig {
  PlacementPolicy policy = PlacementPolicy::kPrefixAware;
  // A replica is not chosen for its cached prefix once its load exceeds so many times the mean of
  // the eligible ones, and that by more than the slack. The slack lets an almost idle fleet use its
  // caches: there, one request is far above the mean.
  double max_imbalance = 1.25;
  uint32_t imbalance_slack_tokens = 2048;
  // What a sequence weighs besides its prompt, in prompt tokens that wait.
  uint32_t sequence_tokens = 128;
  // A session's requests go to one replica while that costs at most so many tokens more than the
  // best one (prefix-aware placement only).
  uint32_t session_affinity_tokens = 512;
  uint64_t seed = 0;  // breaks ties

  absl::Status Validate() const;  // every violation at once
};

// A replica as far as it matters to one request.
struct ReplicaLoad {
  // It is there, takes on new work, and can serve this request.
  bool eligible = false;
  uint64_t queued_tokens = 0;     // prompt tokens of requests that wait there or are on their way
  uint32_t num_sequences = 0;     // that run or wait there, or are on their way
  uint32_t available_blocks = 0;  // free, or cached and referred to by nobody
  uint32_t free_blocks = 0;       // of these: nothing cached in them
  uint32_t block_size_tokens = 16;
  uint32_t cached_tokens = 0;  // of this request's known tokens
};

struct PlacementRequest {
  RequestKey key = 0;
  uint32_t num_known_tokens = 0;  // prompt, and what has been generated elsewhere
  bool suspect = false;           // workers were lost over it: it runs alone
  uint64_t session = 0;           // a hash; 0: it belongs to no session
};

// Chooses the replica of a request. Prefix-aware: the least sum of what waits there, what runs
// there, what would have to be computed (kComputeWeight), and what does not fit the free KV blocks,
// all in tokens; a prefix thus wins over some more load than it saves work, within the bound on
// imbalance. The requests of a session prefer one replica, which each session draws for itself, as
// long as that is about as good as the best. All suspects go to one replica while it is eligible,
// so that they stop the fewest others. Pure: the same calls
// give the same choices. Remembers the turn of round robin and the replica of suspects.
class Placement {
 public:
  // What has to be computed weighs more than what waits: it holds this request up just as long, but
  // the fleet computes the same prefix twice, and its blocks push out what others hold. More than
  // this trades too much balance for hits.
  static constexpr double kComputeWeight = 1.5;

  explicit Placement(const PlacementConfig& config);

  // An index into `replicas`; nullopt when none is eligible.
  std::optional<uint32_t> Choose(const PlacementRequest& request,
                                 std::span<const ReplicaLoad> replicas);

  // In tokens.
  uint64_t LoadOf(const ReplicaLoad& replica) const;

 private:
  std::optional<uint32_t> NextInTurn(std::span<const ReplicaLoad> replicas);
  std::optional<uint32_t> LeastLoaded(const PlacementRequest& request,
                                      std::span<const ReplicaLoad> replicas) const;
  std::optional<uint32_t> PrefixAware(const PlacementRequest& request,
                                      std::span<const ReplicaLoad> replicas) const;
  std::optional<uint32_t> ForSuspect(const PlacementRequest& request,
                                     std::span<const ReplicaLoad> replicas);
  uint64_t CostOf(const PlacementRequest& request, const ReplicaLoad& replica) const;
  // Load above which a replica is not chosen for its prefix.
  uint64_t LoadLimit(std::span<const ReplicaLoad> replicas) const;
  // The replica that a session prefers, among the eligible ones.
  std::optional<uint32_t> HomeOf(uint64_t session, std::span<const ReplicaLoad> replicas) const;
  uint64_t Draw(uint64_t key, uint32_t replica) const;

  const PlacementConfig config_;
  uint32_t turn_ = 0;
  std::optional<uint32_t> quarantine_;
};

}  // namespace lockstep::router
