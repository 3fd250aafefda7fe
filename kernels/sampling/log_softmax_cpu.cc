#include <cmath>
#include <limits>

#include "common/status.h"
#include "kernels/sampling/log_softmax.h"
#include "kernels/sampling/row_reduce.h"

namespace lockstep::kernels {

absl::Status NoLogProbabilities() {
  return Internal("the row has no log-probabilities: every logit is NaN or -inf");
}

absl::StatusOr<LogNormalizer> ComputeLogNormalizer(const Stream& stream,
                                                   std::span<const float> logits) {
  const float max = FindMax(logits).score;
  if (max == -std::numeric_limits<float>::infinity()) {
    return NoLogProbabilities();
  }
  return LogNormalizer{max, std::log(ExpSum(stream, logits, max, /*temperature=*/1.0f, {}))};
}

float LogProbability(float logit, const LogNormalizer& normalizer) {
  return static_cast<float>(double{FiniteScore(logit)} - normalizer.max - normalizer.log_sum);
}

}  // namespace lockstep::kernels
