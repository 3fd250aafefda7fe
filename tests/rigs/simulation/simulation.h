#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "router/engine/replica.h"
#include "router/limits/admission.h"
#include "tests/rigs/simulation/simulated_worker.h"
#include "tests/rigs/simulation/trace.h"

namespace lockstep::bench {

// How requests are spread over several routers: each at random, or all of a conversation to one.
enum class Spreading { kRandom, kConversation };

struct SimulationOptions {
  uint64_t seed = 1;  // of the faults, and of what is spread at random
  uint32_t num_workers = 8;
  // They share the workers as lockstep-router --shard does. A router without workers gets no
  // requests.
  uint32_t num_routers = 1;
  Spreading spreading = Spreading::kRandom;
  WorkerOptions worker;
  FaultOptions faults;
  std::vector<TraceOptions> traces;  // one for each tenant
  router::PlacementConfig placement;
  router::ReplicaConfig replica;
  router::AdmissionLimits admission;
  absl::Duration priority_ageing = absl::Seconds(10);
  absl::Duration good_first_token = absl::Seconds(1);  // what counts as served in time
};

// Of the requests of one trace, or of all.
struct ServiceReport {
  uint64_t num_requests = 0;
  uint64_t num_refused = 0;     // before anything was computed
  uint64_t num_failed = 0;      // afterwards
  uint64_t num_unfinished = 0;  // still there an hour after the last request came
  uint64_t num_in_time = 0;     // finished, the first token within good_first_token
  uint64_t num_prompt_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_output_tokens = 0;
  // Of all streams: tokens that are not those of an undisturbed run, that came besides them, and
  // those missing at the end of a finished request.
  uint64_t num_wrong_tokens = 0;
  uint64_t num_extra_tokens = 0;
  uint64_t num_missing_tokens = 0;
  std::vector<float> first_token_seconds;

  double hit_ratio() const {
    return static_cast<double>(num_cached_tokens) /
           static_cast<double>(num_prompt_tokens > 0 ? num_prompt_tokens : 1);
  }
  // Seconds; `share` from 0 to 1.
  double FirstToken(double share) const;
};

struct SimulationReport {
  ServiceReport all;
  std::vector<ServiceReport> by_trace;
  // By SharedCache, for the same requests.
  double shared_cache_hit_ratio = 0;
  std::vector<uint32_t> workers_of_router;
  std::vector<SimulatedWorker::Totals> workers;
  absl::Duration span;        // from the start to the last end
  uint64_t num_leaked = 0;    // requests and blocks that are held though nothing is left to do
  uint64_t hash = 0;          // of everything that happened, and when
  double router_seconds = 0;  // of CPU time, in the router's own code

  // Maximum over mean of what the workers computed (steps without their fixed part), and of the
  // time that sequences spent on them.
  double work_imbalance() const;
  double sequence_imbalance() const;
};

// Runs everything to its end. The router's own parts are the real ones: Admission, Fleet,
// Placement, PrefixDirectory, Replica, Scheduler, step codec; workers, clients, and time are not.
SimulationReport Simulate(const SimulationOptions& options);

}  // namespace lockstep::bench
