#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/ids.h"

namespace lockstep::router {

// Prefix-aware placement is the default. The other two exist to compare it with.
enum class PlacementPolicy { kPrefixAware, kLeastLoaded, kRoundRobin };

// Names: prefix, least-loaded, round-robin.
std::optional<PlacementPolicy> ParsePlacementPolicy(std::string_view name);

struct PlacementConfig {
  PlacementPolicy policy = PlacementPolicy::kPrefixAware;
  // A replica is not chosen for its cached prefix if its load exceeds this many times the mean of
  // the eligible replicas, plus the slack. The slack lets an almost idle fleet use its caches.
  // There, one request alone is far above the mean.
  double max_imbalance = 1.25;
  uint32_t imbalance_slack_tokens = 2048;
  // What a sequence weighs besides its prompt, in waiting prompt tokens.
  uint32_t sequence_tokens = 128;
  // The requests of a session go to one replica while that costs at most this many tokens more than
  // the best replica (prefix-aware placement only).
  uint32_t session_affinity_tokens = 512;
  uint64_t seed = 0;  // breaks ties

  absl::Status Validate() const;  // reports every violation
};

// What matters about a replica for one request.
struct ReplicaLoad {
  // The replica is there, takes new work, and can serve this request.
  bool eligible = false;
  uint64_t queued_tokens = 0;     // prompt tokens of requests that wait there or are on their way
  uint32_t num_sequences = 0;     // sequences that run or wait there, or are on their way
  uint32_t available_blocks = 0;  // free, or cached without a reference
  uint32_t free_blocks = 0;       // how many of these have nothing cached in them
  uint32_t block_size_tokens = 16;
  uint32_t cached_tokens = 0;  // of this request's known tokens
};

struct PlacementRequest {
  RequestKey key = 0;
  uint32_t num_known_tokens = 0;  // the prompt, and tokens generated elsewhere
  bool suspect = false;           // workers were lost while they ran it, so it runs alone
  uint64_t session = 0;           // a hash; 0: no session
};

// Chooses the replica of a request.
//
// Prefix-aware placement takes the replica with the lowest cost. The cost is the sum of four
// figures, all in tokens: waiting tokens, running tokens, tokens of this request to compute (times
// kComputeWeight), and tokens that do not fit the free KV blocks. So a prefix is worth somewhat
// more load than the work that it saves, up to the bound on imbalance. The requests of a session
// prefer one replica, which is drawn by the session, while that is about as good as the best.
//
// All suspects go to one replica while it is eligible, so that they stop as few other requests as
// possible.
//
// Pure: the same calls give the same choices. Remembers the turn of round robin and the replica of
// suspects.
class Placement {
 public:
  // Tokens that must be computed weigh more than tokens that wait. Both delay this request by the
  // same time. But the fleet computes the same prefix twice, and its blocks push out the blocks of
  // others. A larger weight trades too much balance for hits.
  static constexpr double kComputeWeight = 1.5;

  explicit Placement(const PlacementConfig& config);

  // Returns an index into `replicas`; nullopt if none is eligible.
  std::optional<uint32_t> Choose(const PlacementRequest& request,
                                 std::span<const ReplicaLoad> replicas);

  // The load in tokens.
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
  // A replica with more load than this is not chosen for its prefix.
  uint64_t LoadLimit(std::span<const ReplicaLoad> replicas) const;
  // The eligible replica that a session prefers.
  std::optional<uint32_t> HomeOf(uint64_t session, std::span<const ReplicaLoad> replicas) const;
  uint64_t Draw(uint64_t key, uint32_t replica) const;

  const PlacementConfig config_;
  uint32_t turn_ = 0;
  std::optional<uint32_t> quarantine_;
};

}  // namespace lockstep::router
