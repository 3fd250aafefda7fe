#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "router/core/policy.h"
#include "router/core/prefix_changes.h"
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
  uint32_t vocab_size = std::numeric_limits<uint32_t>::max();  // every token id is below
  uint32_t max_decode_iterations = 1;
  uint32_t max_steps_in_flight = std::numeric_limits<uint32_t>::max();
};

// What a server aims at unless told otherwise: twenty tokens a second whatever prompts arrive.
inline constexpr absl::Duration kServingStepTime = absl::Milliseconds(50);

struct SchedulerConfig {
  // A request waits while none of its sequences runs.
  uint32_t max_waiting_requests = 1024;
  uint64_t max_waiting_tokens = 4u << 20;    // prompt tokens of all waiting requests
  uint32_t max_steps_in_flight = 2;          // also bounded by the worker
  uint32_t max_running_sequences = 4096;     // also bounded by the worker's slots and step tokens
  uint32_t max_prefill_tokens_per_step = 0;  // 0: only the step budget bounds it
  // Of steps in which sequences decode: prefill chunks shrink to about half of it, and grow to four
  // times it as prompts pile up (StepBudget).
  absl::Duration target_step_time = absl::InfiniteDuration();
  uint32_t max_preemptions_per_sequence = 16;  // then the sequence fails, with a reason
  uint32_t max_decode_iterations = 1;          // of a step of decodes only, while nobody waits

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
// Once per request that asks for them, complete, before the first tokens; entry 0 is of prompt
// token 1.
struct PromptLogprobsEvent {
  RequestKey request = 0;
  std::vector<TokenLogprobs> entries;
};
struct FinishedEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  // Not OK: the sequence failed (`reason` is then kAborted). DEADLINE_EXCEEDED, INVALID_ARGUMENT
  // (the worker is too small for it), RESOURCE_EXHAUSTED (preempted too often), INTERNAL (its steps
  // are refused, or workers are lost over it), the worker's own status for its row, or what
  // FailUnserved or FailWithOutput was given.
  absl::Status error;
  uint32_t num_cached_tokens = 0;
  uint32_t num_generated_tokens = 0;
};
using SchedulerEvent = std::variant<AdmittedEvent, PromptLogprobsEvent, TokensEvent, FinishedEvent>;

struct SchedulerStats {
  uint32_t waiting_requests = 0, waiting_sequences = 0, running_sequences = 0;
  uint32_t steps_in_flight = 0;
  uint64_t waiting_tokens = 0;
  uint64_t prefill_tokens = 0;  // known tokens of running sequences, not computed yet
  uint32_t free_blocks = 0, used_blocks = 0, cached_blocks = 0, fenced_blocks = 0;
  uint32_t prefix_index_nodes = 0;
  uint64_t preemptions = 0, prefix_query_tokens = 0, prefix_hit_tokens = 0, rollbacks = 0;
  uint64_t refused_steps = 0, wasted_rows = 0;  // wasted: ran for nobody, or was inert
  uint64_t planned_prefill_tokens = 0, planned_decode_tokens = 0;  // of all steps
};

struct LiveRequest;
struct LiveRequestDeleter {
  void operator()(LiveRequest* live) const;
};
// A request between two schedulers: everything that is known of it, and nothing of a worker.
using SuspendedRequest = std::unique_ptr<LiveRequest, LiveRequestDeleter>;

// A request that another scheduler might get further with: nothing of it runs or is in flight, and
// its own has no worker that may start it.
struct StrandedRequest {
  std::shared_ptr<const Request> request;
  std::span<const TokenId> known_tokens;  // of its first live sample; valid until the next change
  bool has_output = false;                // its bits must go on as they began
  bool suspect = false;                   // workers were lost over it: it must run alone
  uint32_t max_cached_tokens = 0;         // of these, a cached prefix may save so many
};

// The whole policy of one replica as a pure state machine: no thread, socket, clock, lock or proto.
// Owns requests, sequences, block ids, the prefix index. Events come in through the methods, plans
// go out of NextStep, and what clients must hear waits in TakeEvents. Never knows who computes.
class Scheduler {
 public:
  Scheduler(SchedulerConfig config, std::unique_ptr<SchedulingPolicy> policy);
  ~Scheduler();

  // --- requests ---
  // RESOURCE_EXHAUSTED when the queue is full, or when the prompts that surely go before it would
  // take until after its deadline even at twice the speed that was measured; INVALID_ARGUMENT when
  // it can never fit the queue or the worker (its prompt the KV cache, prompt and new tokens the
  // context), DEADLINE_EXCEEDED when it comes too late. Without a worker requests are accepted and
  // wait.
  absl::Status Submit(std::shared_ptr<const Request> request, absl::Time now);
  // Ends all of a request's sequences as aborted; unknown keys are ignored.
  void Cancel(RequestKey request, absl::Time now);
  // The text layer found a stop string: the sequence ends; tokens that arrive later are dropped.
  void StopSequence(RequestKey request, uint32_t sample_index, absl::Time now);
  // Fails what is past its deadline with DEADLINE_EXCEEDED.
  void ExpireDeadlines(absl::Time now);
  absl::Time NextDeadline() const;
  // Since when the request that has waited for a worker longest does so; infinite future: none
  // does. While there is no worker, or it drains, the requests wait of which nothing runs; and each
  // has waited since no worker gets further with anything, or since it came, or last ran. A lease
  // that computes nothing new does not begin the wait anew.
  absl::Time UnservedSince() const;
  // Fails, with `reason`, those that have waited for a worker since `since` or longer. Returns
  // their number.
  uint32_t FailUnserved(absl::Time since, const absl::Status& reason, absl::Time now);

  // --- the worker ---
  // A new lease: block ids and prefix index start empty, step ids at 1. Live sequences wait and are
  // started afresh from all tokens that are held; those that cannot fit this worker fail. Replaces
  // the worker before it. INVALID_ARGUMENT, and nothing changes, when a limit makes no sense.
  absl::Status AttachWorker(const WorkerLimits& limits, absl::Time now);
  // `reason` says how the worker was lost. Whoever is in flight at each loss, gets no further in
  // between, and was alone at the last of them, fails.
  void DetachWorker(const absl::Status& reason, absl::Time now);
  bool has_worker() const;
  // The worker will leave: nothing is started on this lease any more, what runs goes on to its end,
  // and the rest waits for the next worker.
  void DrainWorker(absl::Time now);
  // The worker computes other bits than the one before it: fails, with `reason`, the requests of
  // which anything was computed. Returns their number.
  uint32_t FailWithOutput(const absl::Status& reason, absl::Time now);

  // --- other schedulers ---
  std::vector<StrandedRequest> Stranded() const;
  // Gives a stranded request away, with all its tokens, and with what its sequences have lost
  // workers over; what this one's workers refused says nothing of others. Its events must have been
  // taken. How long it has waited for a worker counts on.
  SuspendedRequest Release(RequestKey request);
  // Takes such a request on, whatever the queue's bounds: it was let in before. It fails when the
  // worker is too small for it, as in AttachWorker.
  void Adopt(SuspendedRequest suspended);
  // What the prefix index learned and forgot since somebody took it.
  PrefixChanges& prefix_changes();

  // The next step to send, if there is work, a worker, and room for one more step in flight. While
  // anything is live and nothing is in flight, there is work, unless the worker drains. Slots that
  // were given up are work as well, a little later: the worker is told even when nothing is left to
  // run.
  std::optional<StepPlan> NextStep(absl::Time now);
  // When NextStep is to be asked again although nothing happens before.
  absl::Time NextStepAt() const;
  // Results come in step order. INTERNAL when the outcome contradicts the recorded plan: nothing of
  // it is applied, no step is planned any more, and the caller must drop the lease (DetachWorker).
  absl::Status Apply(StepOutcome outcome, absl::Time now);

  // To how many requests the failed rows of this outcome belong, which is that of the oldest step
  // in flight and is not applied yet. Rows whose sequences have ended are left out.
  uint32_t CountFailedRequests(const StepOutcome& outcome) const;

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
