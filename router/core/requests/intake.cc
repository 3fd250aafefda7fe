#include "router/core/requests/intake.h"

#include <limits>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/core/requests/first_token.h"

namespace lockstep::router {
namespace {

absl::Status CheckWellFormed(const Request& request) {
  if (request.prompt_tokens.empty()) return InvalidArgument("prompt: no tokens");
  if (request.num_samples == 0) return InvalidArgument("n: 0, expected at least 1");
  if (request.sampling.max_new_tokens == 0) {
    return InvalidArgument("max_tokens: 0, expected at least 1");
  }
  if (request.max_rows_in_flight == 0) {
    return InvalidArgument("max_rows_in_flight: 0, expected at least 1");
  }
  if (request.max_total_tokens() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("max_tokens: {} tokens with the prompt, expected less than 2^32",
                           request.max_total_tokens());
  }
  return absl::OkStatus();
}

struct Queue {
  uint32_t num_requests = 0;
  uint64_t num_tokens = 0;  // of their prompts
};

// Requests that have never run. A request that waits again after a loss or a preemption was
// admitted long ago, so it takes no room from new ones.
Queue CountNewcomers(const Population& population) {
  Queue queue;
  for (const auto& [key, live] : population.requests()) {
    if (!live->waits || live->started) continue;
    ++queue.num_requests;
    queue.num_tokens += live->num_prompt_tokens();
  }
  return queue;
}

absl::Status CheckRoom(const SchedulerConfig& config, const Queue& queue, const Request& request) {
  if (queue.num_requests >= config.max_waiting_requests) {
    return ResourceExhausted("the queue is full: {} requests wait, at most {} may",
                             queue.num_requests, config.max_waiting_requests);
  }
  if (queue.num_tokens + request.prompt_tokens.size() > config.max_waiting_tokens) {
    return ResourceExhausted(
        "the queue is full: {} prompt tokens wait, with this prompt's {} that is more than {}",
        queue.num_tokens, request.prompt_tokens.size(), config.max_waiting_tokens);
  }
  return absl::OkStatus();
}

absl::Status CheckQueue(const SchedulerState& state, const Request& request) {
  const SchedulerConfig& config = state.config;
  const Population& population = state.population;
  if (request.prompt_tokens.size() > config.max_waiting_tokens) {
    return InvalidArgument("prompt: {} tokens, at most {} may wait", request.prompt_tokens.size(),
                           config.max_waiting_tokens);
  }
  // If everything that waits leaves room, newcomers need not be counted.
  const Queue all = {.num_requests = population.num_waiting_requests(),
                     .num_tokens = population.num_waiting_tokens()};
  if (CheckRoom(config, all, request).ok()) return absl::OkStatus();
  return CheckRoom(config, CountNewcomers(population), request);
}

// Prompt tokens that must probably be computed before the request. Counts only tokens that
// certainly go first: waiting requests of its own tenant that the policy puts first.
double NumTokensBefore(const SchedulerState& state, const Request& request, Instant now) {
  const PolicyView view = ViewOf(request);
  double num_tokens = 0;
  for (const Sequence* sequence : state.population.waiting()) {
    if (sequence->view.tenant == view.tenant && sequence->num_charged == 0 &&
        state.policy->Before(sequence->view, view, now)) {
      num_tokens += NumUncached(state.budget, *sequence);
    }
  }
  return num_tokens;
}

// Refuses requests that would only fail later, after they have cost others time. Deliberately
// optimistic: assumes that other tenants give way, that waiting prompts hit the prefix cache as
// often as in the past, and that the worker is twice as fast as it was.
absl::Status CheckDeadline(const SchedulerState& state, const Request& request, Instant now) {
  constexpr double kCaution = 2;
  const absl::Duration left = request.deadline - now;
  const absl::Duration per_token = state.prefill_speed.per_token();
  if (left == absl::InfiniteDuration() || per_token == absl::ZeroDuration()) {
    return absl::OkStatus();
  }
  const absl::Duration wait = per_token * NumTokensBefore(state, request, now) / kCaution;
  if (wait <= left) return absl::OkStatus();
  return ResourceExhausted(
      "the deadline is {} ms away, and what waits before this request takes at least {} ms",
      absl::ToInt64Milliseconds(left), absl::ToInt64Milliseconds(wait));
}

// The other samples wait until the first sample has computed this many tokens. They share two
// things with it: prompt blocks in the prefix index (a hit never covers the last prompt token), and
// the log-probabilities of the prompt, which are collected once. With nothing to share, they start
// in the same step.
uint32_t GateTokens(const Request& request, const WorkerLimits* limits) {
  if (request.num_samples == 1) return 0;
  const auto last = static_cast<uint32_t>(request.prompt_tokens.size()) - 1;
  if (request.sampling.num_prompt_logprobs >= 0) return last;
  if (request.bypass_prefix_cache || limits == nullptr) return 0;
  return last - last % limits->block_size_tokens();
}

void SetGate(LiveRequest& live, const WorkerLimits* limits) {
  live.gate_tokens = GateTokens(*live.request, limits);
  live.gate_open = false;
}

absl::Status CheckConstraint(const Request& request, const WorkerLimits& limits) {
  if (!request.constraint || request.constraint->engine == limits.constraint_engine) {
    return absl::OkStatus();
  }
  if (limits.constraint_engine == 0) {
    return absl::UnimplementedError("constraint: the workers have no constraint engine");
  }
  return Unavailable("constraint: the workers have another constraint engine than this router");
}

}  // namespace

absl::Status CheckFits(const Request& request, const WorkerLimits& limits) {
  const uint64_t num_prompt_tokens = request.prompt_tokens.size();
  if (request.max_total_tokens() > limits.max_context_tokens) {
    return InvalidArgument(
        "max_tokens: {} prompt tokens and {} new ones are {}, the context length is {}",
        num_prompt_tokens, request.sampling.max_new_tokens, request.max_total_tokens(),
        limits.max_context_tokens);
  }
  const uint64_t pool_tokens = limits.max_cached_tokens();
  if (num_prompt_tokens > pool_tokens) {
    return InvalidArgument("prompt: {} tokens, the worker's KV cache holds {}", num_prompt_tokens,
                           pool_tokens);
  }
  return CheckConstraint(request, limits);
}

absl::Status TakeIn(SchedulerState& state, std::shared_ptr<const Request> request, Instant now) {
  LOCKSTEP_RETURN_IF_ERROR(CheckWellFormed(*request));
  const WorkerLimits* limits = state.lease == nullptr ? nullptr : &state.lease->limits;
  if (limits != nullptr) LOCKSTEP_RETURN_IF_ERROR(CheckFits(*request, *limits));
  if (request->deadline <= now) {
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     "the deadline passed before the request came");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckQueue(state, *request));
  if (const absl::Status status = CheckDeadline(state, *request, now); !status.ok()) {
    ++state.num_refused_for_deadline;
    return status;
  }
  if (const absl::Status status = CheckFirstToken(state, *request, now); !status.ok()) {
    ++state.num_refused_for_first_token;
    return status;
  }

  LiveRequest& live = state.population.Add(std::move(request));
  SetGate(live, limits);
  if (live.request->sampling.num_prompt_logprobs >= 0 && live.num_prompt_tokens() > 1) {
    live.next_prompt_logprob = 1;
  }
  return absl::OkStatus();
}

void FitToWorker(SchedulerState& state, LiveRequest& live) {
  const WorkerLimits& limits = state.lease->limits;
  const absl::Status fits = CheckFits(*live.request, limits);
  if (fits.ok()) {
    SetGate(live, &limits);
  } else {
    state.population.EndAll(live, {.error = fits}, state.lease.get());
  }
}

}  // namespace lockstep::router
