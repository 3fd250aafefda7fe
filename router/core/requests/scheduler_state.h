#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/instant.h"
#include "router/core/kv/prefix_changes.h"
#include "router/core/messages/scheduler_config.h"
#include "router/core/policy/draft_policy.h"
#include "router/core/policy/policy.h"
#include "router/core/policy/prefill_speed.h"
#include "router/core/policy/step_budget.h"
#include "router/core/requests/population.h"
#include "router/core/requests/worker_lease.h"

namespace lockstep::router {

// What the parts of the scheduler share. Admission lets requests in, the planner makes steps, and
// retirement reads their outcomes.
struct SchedulerState {
  SchedulerState(const SchedulerConfig& scheduler_config, std::unique_ptr<SchedulingPolicy> order)
      : config(scheduler_config),
        policy(std::move(order)),
        budget(scheduler_config.target_step_time, scheduler_config.max_time_per_token) {}

  const SchedulerConfig config;
  const std::unique_ptr<SchedulingPolicy> policy;
  Population population;
  PrefixChanges prefix_changes;        // not taken by others yet; outlives the lease
  std::unique_ptr<WorkerLease> lease;  // null without a worker
  StepBudget budget;
  PrefillSpeed prefill_speed;  // measured on this lease
  DraftPolicy drafts;          // likewise
  // Time of the first loss or drain since a lease last made progress. Infinite future: there was
  // none since. Infinite past: there has been no worker yet.
  Instant unserved_since = Instant::InfinitePast();

  uint64_t num_starts = 0;
  uint64_t num_preemptions = 0;
  uint64_t num_rollbacks = 0;
  uint64_t num_refused_steps = 0;
  uint64_t num_wasted_rows = 0;
  uint64_t num_refused_for_deadline = 0;
  uint64_t num_refused_for_first_token = 0;
  uint64_t num_planned_prefill_tokens = 0;
  uint64_t num_planned_decode_tokens = 0;
  std::array<uint64_t, kMaxDrafts + 1> rounds_by_drafts = {};
  std::array<uint64_t, kMaxDrafts> accepted_by_place = {};
  uint64_t num_prefix_query_tokens = 0;
  uint64_t num_prefix_hit_tokens = 0;
};

// The most sequences that may run. Every one decodes in every step, so no more may run than a step
// has tokens. Call only with a lease.
inline size_t MaxRunning(const SchedulerState& state) {
  const WorkerLimits& limits = state.lease->limits;
  return std::min({state.config.max_running_sequences, limits.max_slots, limits.max_step_tokens});
}

// The most prompt tokens of a step. Call only with a lease.
inline uint32_t MaxPrefillTokens(const SchedulerState& state) {
  const uint32_t most = state.lease->limits.max_step_tokens;
  const uint32_t configured = state.config.max_prefill_tokens_per_step;
  return configured > 0 ? std::min(configured, most) : most;
}

// The most tokens that the worker may draft for a row. Call only with a lease.
inline uint32_t MaxDrafts(const SchedulerState& state) {
  return std::min(state.config.max_draft_tokens, state.lease->limits.max_draft_tokens);
}

inline bool WorkerMayStart(const SchedulerState& state) {
  return state.lease != nullptr && !state.lease->draining;
}

// When the request began to wait for a worker. Call only if no worker may start it.
inline Instant UnservedSinceOf(const LiveRequest& live, const SchedulerState& state) {
  if (live.num_resident > 0) return Instant::InfiniteFuture();
  return std::max({state.unserved_since, live.request->arrival, live.served_until});
}

}  // namespace lockstep::router
