#include "worker/steps/sampling_rules.h"

#include <cmath>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

absl::Status CheckNumbers(const v1::SlotSampling& sampling) {
  // Written so that NaN fails.
  if (!(sampling.temperature() >= 0) || !std::isfinite(sampling.temperature())) {
    return InvalidArgument("temperature: must be finite and at least 0, got {}",
                           sampling.temperature());
  }
  if (!(sampling.top_p() > 0 && sampling.top_p() <= 1)) {
    return InvalidArgument("top_p: must be in (0, 1], got {}", sampling.top_p());
  }
  if (!(sampling.min_p() >= 0 && sampling.min_p() <= 1)) {
    return InvalidArgument("min_p: must be in [0, 1], got {}", sampling.min_p());
  }
  if (!std::isfinite(sampling.presence_penalty())) {
    return InvalidArgument("presence_penalty: must be finite, got {}", sampling.presence_penalty());
  }
  if (!std::isfinite(sampling.frequency_penalty())) {
    return InvalidArgument("frequency_penalty: must be finite, got {}",
                           sampling.frequency_penalty());
  }
  if (!(sampling.repetition_penalty() > 0) || !std::isfinite(sampling.repetition_penalty())) {
    return InvalidArgument("repetition_penalty: must be finite and above 0, got {}",
                           sampling.repetition_penalty());
  }
  return absl::OkStatus();
}

absl::Status CheckTokenIds(std::string_view field,
                           const google::protobuf::RepeatedField<uint32_t>& ids,
                           uint32_t vocab_size, StampSet& scratch) {
  scratch.Clear();
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocab_size) {
      return InvalidArgument("{}[{}]: token {} is not below the vocabulary size {}", field, i,
                             ids[i], vocab_size);
    }
    if (!scratch.Insert(ids[i])) {
      return InvalidArgument("{}[{}]: token {} is given twice", field, i, ids[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLogprobCount(std::string_view field, int32_t count, uint32_t max) {
  if (count < -1 || count > static_cast<int64_t>(max)) {
    return InvalidArgument("{}: must be in [-1, {}], got {}", field, max, count);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSampling(const v1::SlotSampling& sampling, const StepBounds& bounds,
                           StampSet& scratch) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNumbers(sampling));
  const uint32_t vocab_size = bounds.vocab_size;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckTokenIds("logit_bias_ids", sampling.logit_bias_ids(), vocab_size, scratch));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckTokenIds("allowed_token_ids", sampling.allowed_token_ids(), vocab_size, scratch));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckTokenIds("stop_token_ids", sampling.stop_token_ids(), vocab_size, scratch));
  if (sampling.logit_bias_ids_size() != sampling.logit_bias_values_size()) {
    return InvalidArgument("logit_bias_values: expected {} entries, got {}",
                           sampling.logit_bias_ids_size(), sampling.logit_bias_values_size());
  }
  for (int i = 0; i < sampling.logit_bias_values_size(); ++i) {
    if (!std::isfinite(sampling.logit_bias_values(i))) {
      return InvalidArgument("logit_bias_values[{}]: must be finite, got {}", i,
                             sampling.logit_bias_values(i));
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(
      CheckLogprobCount("num_logprobs", sampling.num_logprobs(), bounds.max_logprobs));
  return CheckLogprobCount("num_prompt_logprobs", sampling.num_prompt_logprobs(),
                           bounds.max_logprobs);
}

}  // namespace lockstep::worker
