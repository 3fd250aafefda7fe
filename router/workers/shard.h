#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Which of the routers that share workers serves which worker. Everything here is drawn by
// rendezvous hashing (Thaler and Ravishankar, 1998): each router has a weight for each worker, and
// the highest comes first. Pure, and equal in every process, build and machine of little-endian
// byte order. Addresses of workers are hashed as text, so all routers must write them alike.
namespace lockstep::router {

// Which of the routers that share the same workers this one is.
struct Shard {
  uint32_t index = 0;  // below count
  uint32_t count = 1;  // 1: the router shares its workers with no other
};

// "I/N" with 0 <= I < N <= 128; empty: the only router. INVALID_ARGUMENT quotes `text` and says
// what was expected.
absl::StatusOr<Shard> ParseShard(std::string_view text);

// This router's place among the routers that may serve the worker. 0: the worker belongs to this
// router. 1: this router stands in first, and so on. Looks at one worker alone, for workers that
// come and go: no other worker changes its owner then. The shares of the routers are even only on
// average. One more router at the end takes its share, and nothing else moves.
uint32_t ShardRank(const Shard& shard, std::string_view worker);

// The same for workers that are all known from the start: every router owns as many as any other,
// or one more. The heaviest pair of router and worker comes first, and a router that has its share
// is passed over. `workers` are different from each other; their order does not matter. One more
// router at the end takes its share, and few others move.
std::vector<uint32_t> EvenShardRanks(const Shard& shard, std::span<const std::string> workers);

}  // namespace lockstep::router
