#include "worker/steps/sampling_rules.h"

#include <cmath>
#include <string_view>

#include "common/grpc/sampling_fields.h"
#include "common/ids.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

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
  SamplingNumbers numbers;
  ReadSamplingNumbers(sampling, numbers);
  LOCKSTEP_RETURN_IF_ERROR(CheckSamplingNumbers(numbers, ""));
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
