#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "router/core/messages/request.h"
#include "router/core/messages/step.h"

namespace lockstep::router {

// What happened to a sequence. The events of one sequence come in order.
struct TokensEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;
  uint32_t num_drafted = 0;          // tokens that the worker drafted
  uint32_t num_accepted_drafts = 0;  // those of them among `tokens`
};
struct StartedEvent {  // once per request, when its first sequence gets a slot for the first time
  RequestKey request = 0;
  uint32_t num_cached_tokens = 0;
};
// Once per request that asks for prompt log-probabilities. Complete, and sent before the first
// tokens. Entry 0 belongs to prompt token 1.
struct PromptLogprobsEvent {
  RequestKey request = 0;
  std::vector<TokenLogprobs> entries;
};
struct FinishedEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;
  // Not OK: the sequence failed, and `reason` is kAborted.
  //   DEADLINE_EXCEEDED: the deadline passed.
  //   INVALID_ARGUMENT: the worker is too small for it.
  //   RESOURCE_EXHAUSTED: preempted too often.
  //   INTERNAL: its steps were refused, or workers were lost while they ran it, too often.
  // Otherwise the worker's own status for its row, or the status given to FailUnserved or
  // FailWithOutput.
  absl::Status error;
  uint32_t num_cached_tokens = 0;
  uint32_t num_generated_tokens = 0;
};
// The sequence was taken off the worker for lack of blocks. It keeps its tokens, and starts again.
struct PreemptedEvent {
  RequestKey request = 0;
  uint32_t sample_index = 0;
};
using SchedulerEvent =
    std::variant<StartedEvent, PromptLogprobsEvent, TokensEvent, PreemptedEvent, FinishedEvent>;

}  // namespace lockstep::router
