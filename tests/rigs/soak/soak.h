#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::bench {

enum class SoakMode { kKill, kStop, kHalfOpen, kTakeover, kOverload, kHostile, kEach, kIdle };

struct SoakOptions {
  SoakMode mode = SoakMode::kKill;
  absl::Duration duration = absl::Minutes(3);
  uint64_t seed = 1;
  uint32_t num_streams = 64;
  absl::Duration fault_interval = absl::Seconds(2);
  absl::Duration step_timeout = absl::Seconds(1);  // after which the router gives a worker up
  std::string programs;                            // folder of lockstep-router, lockstep-worker
  std::string model;                               // a small one

  // --- of the hostile soaks ---
  std::vector<std::string> attacks =
      {};  // by name (tests/rigs/soak/attacks/attackers.h); empty: all
  std::vector<std::string> router_flags = {};  // besides the soak's own
  // Where to run, as in "0-3,8"; empty: anywhere.
  std::string router_processors = {};
  std::string client_processors = {};  // honest clients and workers
  std::string attacker_processors = {};

  uint32_t num_idle = 10'000;  // idle: connections or streams of each kind
};

// What all clients saw together. An undisturbed run said before what each request's tokens are.
struct ClientTally {
  uint64_t num_requests = 0;
  uint64_t num_finished = 0;  // with OK
  uint64_t num_refused = 0;   // before anything of the answer, with a hint when to come back
  std::map<std::string, uint64_t> num_failed;  // the rest, by status
  std::vector<std::string> messages;           // of the first few that did not finish
  uint64_t num_tokens = 0;
  uint64_t num_wrong_tokens = 0;      // another one than expected at its place
  uint64_t num_duplicate_tokens = 0;  // beyond the last expected one
  uint64_t num_missing_tokens = 0;    // of requests that finished
  uint64_t num_bad_finishes = 0;      // not one finish for each output, or with another count

  bool all_right() const {
    return num_wrong_tokens + num_duplicate_tokens + num_missing_tokens + num_bad_finishes == 0;
  }
  // Everything but a right answer, refusals too.
  uint64_t num_wrong() const {
    uint64_t num_wrong = num_refused + num_wrong_tokens + num_duplicate_tokens +
                         num_missing_tokens + num_bad_finishes;
    for (const auto& [status, count] : num_failed) num_wrong += count;
    return num_wrong;
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

// What one attacker did (tests/rigs/soak/attacks/attackers.h).
struct AttackReport {
  std::string name;
  uint64_t num_attempts = 0;
  uint64_t num_answered = 0;
  uint64_t num_refused = 0;
  uint64_t num_cut_off = 0;
};

// Honest clients, with or without attackers beside them.
struct PhaseReport {
  std::string name;
  LatencyReport latency;
  std::vector<AttackReport> attacks;
  bool is_timed = false;       // its p99 is bounded
  uint64_t start_rss_kib = 0;  // of the router
  uint64_t peak_rss_kib = 0;   // the most at any moment
  uint64_t num_wrong = 0;      // faults that honest clients saw

  // Nobody waits much longer than undisturbed.
  bool is_swift(const PhaseReport& quiet) const {
    const auto within = [](double p99_ms, double quiet_p99_ms) {
      constexpr double kSpareMs = 50;
      return p99_ms <= 2 * quiet_p99_ms + kSpareMs;
    };
    return within(latency.first_token_p99_ms, quiet.latency.first_token_p99_ms) &&
           within(latency.whole_p99_ms, quiet.latency.whole_p99_ms);
  }
};

struct HostileReport {
  PhaseReport quiet;  // before the attacks, with the same honest clients
  std::vector<PhaseReport> attacked;
  uint64_t budget_mib = 0;
  uint64_t final_rss_kib = 0;  // with no client left

  static constexpr uint64_t kSpareKib = 64 * 1024;
  // The most that is resident at any moment of a phase is at most the most without attackers, the
  // budget and some more.
  bool is_within_budget(const PhaseReport& phase) const {
    return phase.peak_rss_kib <= quiet.peak_rss_kib + budget_mib * 1024 + kSpareKib;
  }
  bool within_budget() const {
    return std::all_of(attacked.begin(), attacked.end(),
                       [this](const PhaseReport& phase) { return is_within_budget(phase); });
  }
  // And little of it stays: what the router's keeper leaves, the larger of 16 MiB and a quarter of
  // what the router needs (router/router_server.cc), and some more for what the allocator
  // cannot return.
  static constexpr uint64_t kKeptKib = 32 * 1024;
  bool given_back() const { return final_rss_kib <= quiet.peak_rss_kib + kKeptKib; }
};

// What idle connections and streams hold.
struct IdleReport {
  std::string name;
  uint64_t count = 0;
  uint64_t start_rss_kib = 0;  // of the router
  uint64_t end_rss_kib = 0;

  double kib_each() const {
    return (static_cast<double>(end_rss_kib) - static_cast<double>(start_rss_kib)) /
           static_cast<double>(count);
  }
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
  HostileReport hostile;            // hostile and each
  std::vector<IdleReport> idle;     // idle
};

// Runs a router, workers and clients of theirs for `duration`, with one fault every interval. An
// error when the soak itself could not go on; what the clients saw is for the caller to judge. The
// router dies when its books don't add up, whenever it falls idle: then the scrape at the end
// fails.
absl::StatusOr<SoakReport> RunSoak(const SoakOptions& options);

// kill9, sigstop, half-open, takeover, overload, hostile, each or idle; nothing for another name.
std::optional<SoakMode> ParseSoakMode(std::string_view name);

// One JSON object.
std::string ToJson(const SoakOptions& options, const SoakReport& report);

}  // namespace lockstep::bench
