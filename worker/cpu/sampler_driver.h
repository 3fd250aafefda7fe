#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/constraints/constraint.h"
#include "kernels/sampling/sample.h"
#include "lockstep/worker/v1/worker.pb.h"
#include "worker/steps/slot.h"

namespace lockstep::worker {

// Samples a slot's next token from a row of logits, and computes log-probabilities. Owns the
// samplers' scratch memory. Allocates only for log-probabilities that were asked for.
class SamplerDriver {
 public:
  explicit SamplerDriver(uint32_t vocab_size) : workspace_(vocab_size) {}

  // Samples the token after the last known one, among those that `mask` allows (null: all). If the
  // slot asks for log-probabilities, fills `logprobs` from the raw logits. logits: [vocab_size],
  // overwritten. INTERNAL when no token can be sampled.
  absl::StatusOr<TokenId> Sample(const Slot& slot, const TokenMask* mask, std::span<float> logits,
                                 v1::TokenLogprobs* logprobs);

  // Log-probability of a given token and the `num_best` best ones. logits: [vocab_size]
  absl::Status Describe(std::span<const float> logits, TokenId token, int32_t num_best,
                        v1::TokenLogprobs* logprobs);

 private:
  kernels::SampleWorkspace workspace_;
  std::vector<kernels::ScoredToken> best_;
  std::vector<float> raw_;  // unchanged logits of the model
};

}  // namespace lockstep::worker
