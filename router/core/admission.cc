#include "router/core/admission.h"

#include <limits>
#include <utility>

#include "common/status.h"

namespace lockstep::router {
namespace {

absl::Status CheckWellFormed(const Request& request) {
  if (request.prompt_tokens.empty()) return InvalidArgument("prompt: no tokens");
  if (request.num_samples == 0) return InvalidArgument("n: 0, expected at least 1");
  if (request.sampling.max_new_tokens == 0) {
    return InvalidArgument("max_tokens: 0, expected at least 1");
  }
  const uint64_t total = request.prompt_tokens.size() + uint64_t{request.sampling.max_new_tokens};
  if (total > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("max_tokens: {} tokens with the prompt, expected less than 2^32", total);
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
  if (population.num_waiting_requests() >= config.max_waiting_requests) {
    return ResourceExhausted("the queue is full: {} requests wait, at most {} may",
                             population.num_waiting_requests(), config.max_waiting_requests);
  }
  const uint64_t num_tokens = population.num_waiting_tokens() + request.prompt_tokens.size();
  if (num_tokens > config.max_waiting_tokens) {
    return ResourceExhausted(
        "the queue is full: {} prompt tokens wait, with this prompt's {} that is more than {}",
        population.num_waiting_tokens(), request.prompt_tokens.size(), config.max_waiting_tokens);
  }
  return absl::OkStatus();
}

// Whoever follows the first sample waits for what it can take from the prefix index (a hit never
// covers the last prompt token), and for log-probabilities of the prompt, which are collected once.
// With nothing to wait for it starts in the same step.
uint32_t GateTokens(const Request& request, const WorkerLimits* limits) {
  if (request.num_samples == 1) return 0;
  const auto last = static_cast<uint32_t>(request.prompt_tokens.size()) - 1;
  if (request.sampling.num_prompt_logprobs >= 0) return last;
  if (request.bypass_prefix_cache || limits == nullptr) return 0;
  return last - last % limits->block_size_tokens;
}

void SetGate(LiveRequest& live, const WorkerLimits* limits) {
  live.gate_tokens = GateTokens(*live.request, limits);
  live.gate_open = false;
}

}  // namespace

absl::Status CheckFits(const Request& request, const WorkerLimits& limits) {
  const uint64_t num_prompt_tokens = request.prompt_tokens.size();
  const uint64_t total = num_prompt_tokens + request.sampling.max_new_tokens;
  if (total > limits.max_context_tokens) {
    return InvalidArgument(
        "max_tokens: {} prompt tokens and {} new ones are {}, the context length is {}",
        num_prompt_tokens, request.sampling.max_new_tokens, total, limits.max_context_tokens);
  }
  const uint64_t pool_tokens = uint64_t{limits.num_blocks} * limits.block_size_tokens;
  if (num_prompt_tokens > pool_tokens) {
    return InvalidArgument("prompt: {} tokens, the worker's KV cache holds {}", num_prompt_tokens,
                           pool_tokens);
  }
  return absl::OkStatus();
}

absl::Status Admit(SchedulerState& state, std::shared_ptr<const Request> request, absl::Time now) {
  LOCKSTEP_RETURN_IF_ERROR(CheckWellFormed(*request));
  const WorkerLimits* limits = state.lease == nullptr ? nullptr : &state.lease->limits;
  if (limits != nullptr) LOCKSTEP_RETURN_IF_ERROR(CheckFits(*request, *limits));
  if (request->deadline <= now) {
    return MakeError(absl::StatusCode::kDeadlineExceeded,
                     "the deadline passed before the request came");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckQueue(state, *request));

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
