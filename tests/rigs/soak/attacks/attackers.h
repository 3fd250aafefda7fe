#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::bench {

// Keys of the tenants of the hostile soak, and the file that has their hashes.
inline constexpr char kHonestKey[] = "honest-key";  // without limits
// Of the attackers. They may not fill the queue of requests, and have no other limits.
inline constexpr char kGreedyKey[] = "greedy-key";          // over HTTP/1.1
inline constexpr char kSecondGreedyKey[] = "greedy-key-2";  // over HTTP/2
inline constexpr char kLimitedKey[] =
    "limited-key";  // of the attackers; next to nothing is allowed
std::string HostileTenants();

// What an attacker has done, and what came of it as far as it looked.
struct AttackTally {
  std::atomic<uint64_t> num_attempts = 0;
  std::atomic<uint64_t> num_answered = 0;  // 2xx
  std::atomic<uint64_t> num_refused = 0;   // 4xx and 5xx
  std::atomic<uint64_t> num_cut_off = 0;   // the router closed the connection, or took none
};

struct AttackTarget {
  std::string grpc_address;
  std::string http_address;
};

// One way to do harm, on a thread of its own, until it is told to stop. A new one is a function and
// a line in the table.
struct Attacker {
  std::string_view name;
  bool is_timed;  // during it others' p99 is bounded (PhaseReport::is_swift)
  void (*run)(const AttackTarget& target, const std::stop_token& stop, AttackTally& tally);
};
std::span<const Attacker> Http1Attackers();
std::span<const Attacker> Http2Attackers();
std::vector<Attacker> AllAttackers();
// In the order of the table. All of them where no names are given; an error for an unknown one.
absl::StatusOr<std::vector<Attacker>> AttackersNamed(const std::vector<std::string>& names);

}  // namespace lockstep::bench
