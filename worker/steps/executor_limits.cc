#include "worker/steps/executor_limits.h"

#include "common/check.h"

namespace lockstep::worker {

StepBounds::StepBounds(const ForwardModelInfo& info, const ExecutorLimits& limits)
    : max_slots(limits.max_slots),
      max_step_tokens(limits.max_step_tokens == 0 ? info.max_step_tokens : limits.max_step_tokens),
      max_logprobs(limits.max_logprobs),
      max_decode_iterations(limits.max_decode_iterations),
      max_draft_tokens(limits.max_draft_tokens),
      draft_sources(max_draft_tokens == 0 ? std::vector<std::string>() : limits.draft_sources),
      vocab_size(info.vocab_size),
      max_context_tokens(info.max_context_tokens),
      block_size_tokens(info.block_size_tokens),
      kv_groups(info.kv_groups),
      max_blocks_per_slot(0) {
  LOCKSTEP_CHECK(vocab_size > 0 && max_context_tokens > 0 && block_size_tokens > 0,
                 "model {} reports an empty vocabulary, context or block", info.model_id);
  LOCKSTEP_CHECK(!kv_groups.empty() && kv_groups.front().window_tokens == 0,
                 "model {} has no first KV group that keeps all tokens", info.model_id);
  for (const KvGroupInfo& group : kv_groups) {
    LOCKSTEP_CHECK(group.num_blocks > 0, "model {} reports an empty KV pool", info.model_id);
  }
  LOCKSTEP_CHECK(info.max_logits_rows > 0, "model {} has no room for logits", info.model_id);
  LOCKSTEP_CHECK(max_slots > 0 && max_decode_iterations > 0,
                 "limits of zero leave nothing to execute");
  LOCKSTEP_CHECK(max_step_tokens > 0 && max_step_tokens <= info.max_step_tokens,
                 "steps of {} tokens do not fit the workspace of {}", max_step_tokens,
                 info.max_step_tokens);
  max_blocks_per_slot = (max_context_tokens + block_size_tokens - 1) / block_size_tokens;
}

}  // namespace lockstep::worker
