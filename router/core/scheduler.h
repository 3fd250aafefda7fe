#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "router/core/policy.h"
#include "router/core/request.h"
#include "router/core/step.h"

namespace lockstep::router {

// What a worker announced; valid while its epoch and incarnation last.
struct WorkerLimits {
  uint32_t num_blocks = 0;
  uint32_t block_size_tokens = 16;
  uint32_t max_slots = 0;
  uint32_t max_step_tokens = 0;
  uint32_t max_context_tokens = 0;
  uint32_t max_decode_iterations = 1;
};

struct SchedulerConfig {
  uint32_t max_waiting_requests = 1024;
  uint64_t max_waiting_tokens = 4u << 20;   // prompt tokens of all waiting requests
  uint32_t max_steps_in_flight = 2;
  uint32_t max_running_sequences = 256;     // also bounded by the worker's slots
  uint32_t max_prefill_tokens_per_step = 0; // 0: only the step budget bounds it
  absl::Duration target_step_time = absl::InfiniteDuration();  // prefill chunks shrink to meet it
  uint32_t max_preemptions_per_sequence = 16;  // then the request fails, with a reason

  absl::Status Validate() const;  // every violation at once
};

// What happened to a sequence, for whoever delivers it. In order per sequence.
struct TokensEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
};
struct AdmittedEvent {  // once per request, when its first sequence got a slot for the first time
  RequestKey request = 0;
  uint32_t num_cached_tokens = 0;
};
struct PromptLogprobsEvent {  // once per request, complete; entry 0 is of prompt token 1
  RequestKey request = 0;
  std::vector<TokenLogprobs> entries;
};
struct FinishedEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  absl::Status error;  // not OK: the request failed (deadline, worker error, too many preemptions)
  uint32_t num_cached_tokens = 0;
  uint32_t num_generated_tokens = 0;
};
using SchedulerEvent = std::variant<AdmittedEvent, PromptLogprobsEvent, TokensEvent, FinishedEvent>;

struct SchedulerStats {
  uint32_t waiting_requests = 0, running_sequences = 0, steps_in_flight = 0;
  uint64_t waiting_tokens = 0;
  uint32_t free_blocks = 0, used_blocks = 0, cached_blocks = 0, fenced_blocks = 0;
  uint32_t prefix_index_nodes = 0;
  uint64_t preemptions = 0, prefix_query_tokens = 0, prefix_hit_tokens = 0, rollbacks = 0;
};

// The whole policy of one replica as a pure state machine: no thread, socket, clock, lock or proto.
// Owns requests, sequences, block ids, the prefix index. Events come in through the methods, plans go
// out of NextStep, and what clients must hear waits in TakeEvents. Never knows who computes.
class Scheduler {
 public:
  Scheduler(SchedulerConfig config, std::unique_ptr<SchedulingPolicy> policy);
  ~Scheduler();

  // --- requests ---
  // RESOURCE_EXHAUSTED when the queue is full, INVALID_ARGUMENT when it can never fit the worker.
  // Without a worker requests are accepted and wait.
  absl::Status Submit(std::shared_ptr<const Request> request, absl::Time now);
  // Ends all (or one) of a request's sequences as aborted; unknown keys are ignored.
  void Cancel(RequestKey request, absl::Time now);
  // The text layer found a stop string: the sequence ends; tokens after it are not delivered.
  void StopSequence(RequestKey request, uint32_t sample_index, absl::Time now);
  // Fails what is past its deadline with DEADLINE_EXCEEDED.
  void ExpireDeadlines(absl::Time now);
  absl::Time NextDeadline() const;
  // Fails everything, waiting and running, with `reason` (drain timeout, no worker came back).
  void FailAll(const absl::Status& reason, absl::Time now);

  // --- the worker ---
  // A new lease: block ids and prefix index start empty, step ids at 1. Live sequences wait and are
  // started afresh from all tokens that are held.
  void AttachWorker(const WorkerLimits& limits, absl::Time now);
  void DetachWorker(absl::Time now);
  bool has_worker() const;

  // The next step to send, if there is work, a worker, and room for one more step in flight.
  std::optional<StepPlan> NextStep(absl::Time now);
  // Results come in step order. INTERNAL when the outcome contradicts the recorded plan: the caller
  // must then drop the lease.
  absl::Status Apply(const StepOutcome& outcome, absl::Time now);

  std::vector<SchedulerEvent> TakeEvents();
  SchedulerStats Stats() const;
  bool Idle() const;  // nothing waiting, running or in flight
  // Pool, index and tables add up; the first violation found. O(everything).
  absl::Status CheckIntegrity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
