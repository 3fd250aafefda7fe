#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::bench {

enum class SoakMode { kKill, kStop, kHalfOpen, kTakeover, kOverload, kHostile };

struct SoakOptions {
  SoakMode mode = SoakMode::kKill;
  absl::Duration duration = absl::Minutes(3);
  uint64_t seed = 1;
  uint32_t num_streams = 64;
  absl::Duration fault_interval = absl::Seconds(2);
  absl::Duration step_timeout = absl::Seconds(1);  // after which the router gives a worker up
  std::string programs;                            // folder of lockstep-router, lockstep-worker
  std::string model;                               // a small one
};

// What all clients saw together. An undisturbed run said before what each request's tokens are.
struct ClientTally {
  uint64_t num_requests = 0;
  uint64_t num_finished = 0;  // with OK
  uint64_t num_refused = 0;   // before anything of the answer, with a hint when to come back
  std::map<std::string, uint64_t> num_failed;  // the rest, by status
  std::vector<std::string> messages;           // of the first few of them
  uint64_t num_tokens = 0;
  uint64_t num_wrong_tokens = 0;      // another one than expected at its place
  uint64_t num_duplicate_tokens = 0;  // beyond the last expected one
  uint64_t num_missing_tokens = 0;    // of requests that finished
  uint64_t num_bad_finishes = 0;      // not one finish for each output, or with another count

  bool all_right() const {
    return num_wrong_tokens + num_duplicate_tokens + num_missing_tokens + num_bad_finishes == 0;
  }
};

// One offered load of the overload soak.
struct LoadReport {
  double offered_per_second = 0;
  double goodput_per_second = 0;  // complete and in time
  uint64_t num_requests = 0;
  uint64_t num_finished = 0;
  uint64_t num_refused = 0;
  std::map<std::string, uint64_t> num_failed;
  double refusal_p50_ms = 0;
  double refusal_p99_ms = 0;
  double peak_queue_requests = 0;
  double peak_queue_tokens = 0;
  uint64_t start_rss_kib = 0;  // of the router
  uint64_t end_rss_kib = 0;
};

struct ClientLatency {
  double first_token_seconds = 0;
  double whole_seconds = 0;
};

// Of honest requests that finished.
struct LatencyReport {
  uint64_t num_requests = 0;
  double first_token_p50_ms = 0;
  double first_token_p99_ms = 0;
  double whole_p50_ms = 0;
  double whole_p99_ms = 0;
};

// What one attacker did (bench/router/soak/attackers.h).
struct AttackReport {
  std::string name;
  uint64_t num_attempts = 0;
  uint64_t num_answered = 0;
  uint64_t num_refused = 0;
  uint64_t num_cut_off = 0;
};

struct HostileReport {
  LatencyReport quiet;     // before the attack
  LatencyReport attacked;  // during it
  std::vector<AttackReport> attacks;
  uint64_t budget_mib = 0;        // of bodies and answers over HTTP
  uint64_t quiet_rss_kib = 0;     // of the router: the most, before the attack
  uint64_t attacked_rss_kib = 0;  // the most, during it
  uint64_t final_rss_kib = 0;     // with no client left

  static constexpr uint64_t kSpareKib = 64 * 1024;
  // What the attack cost beside the budget is little.
  bool within_budget() const {
    return attacked_rss_kib <= quiet_rss_kib + budget_mib * 1024 + kSpareKib;
  }
  // And little of it stays.
  bool given_back() const { return final_rss_kib <= quiet_rss_kib + kSpareKib; }
};

struct SoakReport {
  ClientTally clients;
  uint32_t num_faults = 0;
  double max_restart_seconds = 0;   // kill: of a worker, until it listens again
  uint32_t num_fenced_routers = 0;  // takeover: resumed, and found without any worker
  uint32_t num_disturbances = 0;    // takeover: their successors lost a lease when they came back
  double num_resumed = 0;           // requests that outlived a lost worker
  std::vector<uint64_t> rss_kib;    // of the last router, at its start, middle and end
  double leaked = 0;                // blocks, requests and tokens held with no client left
  std::vector<LoadReport> loads;    // overload
  HostileReport hostile;            // hostile
};

// Runs a router, workers and clients of theirs for `duration`, with one fault every interval. An
// error when the soak itself could not go on; what the clients saw is for the caller to judge. The
// router dies when its books don't add up, whenever it falls idle: then the scrape at the end
// fails.
absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options);

// kill9, sigstop, half-open, takeover, overload or hostile; nothing for another name.
std::optional<SoakMode> ParseSoakMode(std::string_view name);

// One JSON object.
std::string ToJson(const SoakOptions& options, const SoakReport& report);

}  // namespace lockstep::bench
