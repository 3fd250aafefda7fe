#include "worker/model/forward_model.h"

#include "common/check.h"

namespace lockstep::worker {

void CheckBatchFits(const ForwardBatch& batch, std::span<const float> logits,
                    const ForwardModelInfo& info) {
  const size_t num_logits_rows = batch.logits_tokens.size();
  LOCKSTEP_CHECK(batch.token_ids.size() <= info.max_step_tokens, "a step of {} tokens",
                 batch.token_ids.size());
  LOCKSTEP_CHECK(num_logits_rows <= info.max_logits_rows, "{} rows of logits", num_logits_rows);
  LOCKSTEP_CHECK(logits.size() == num_logits_rows * info.vocab_size,
                 "room for {} logits, expected {} rows", logits.size(), num_logits_rows);
}

}  // namespace lockstep::worker
