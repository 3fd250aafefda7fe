#pragma once

#include <absl/status/statusor.h>

#include <span>

#include "kernels/core/stream.h"

// Log-probabilities over the raw logits of a row, before bias, penalties, temperature and filters.
namespace lockstep::kernels {

struct LogNormalizer {
  float max = 0;
  double log_sum = 0;  // of e^(logit - max), summed as row_reduce.h describes
};

// INTERNAL: every logit of a row is NaN or -inf.
absl::Status NoLogProbabilities();

// NoLogProbabilities when there are none. logits: [vocab_size]
absl::StatusOr<LogNormalizer> ComputeLogNormalizer(const Stream& stream,
                                                   std::span<const float> logits);

// log softmax of one logit; NaN counts as -inf.
float LogProbability(float logit, const LogNormalizer& normalizer);

}  // namespace lockstep::kernels
