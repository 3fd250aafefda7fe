#include "worker/cpu/sampler_driver.h"

#include "common/status.h"
#include "kernels/sampling/log_softmax.h"

namespace lockstep::worker {
namespace {

void FillToken(std::span<const float> logits, TokenId token,
               const kernels::LogNormalizer& normalizer, v1::TokenLogprobs* logprobs) {
  logprobs->set_token_id(token);
  logprobs->set_logprob(kernels::LogProbability(logits[token], normalizer));
  logprobs->set_rank(kernels::RankOf(logits, token));
}

void FillBest(std::span<const kernels::ScoredToken> best, const kernels::LogNormalizer& normalizer,
              v1::TokenLogprobs* logprobs) {
  for (const kernels::ScoredToken& entry : best) {
    logprobs->add_top_ids(entry.token);
    logprobs->add_top_logprobs(kernels::LogProbability(entry.score, normalizer));
  }
}

}  // namespace

absl::Status SamplerDriver::Describe(std::span<const float> logits, TokenId token, int32_t num_best,
                                     v1::TokenLogprobs* logprobs) {
  LOCKSTEP_ASSIGN_OR_RETURN(const kernels::LogNormalizer normalizer,
                            kernels::ComputeLogNormalizer(workspace_.stream, logits));
  FillToken(logits, token, normalizer, logprobs);
  kernels::SelectTopK(logits, static_cast<size_t>(num_best), best_);
  FillBest(best_, normalizer, logprobs);
  return absl::OkStatus();
}

absl::StatusOr<TokenId> SamplerDriver::Sample(const Slot& slot, const TokenMask* mask,
                                              std::span<float> logits,
                                              v1::TokenLogprobs* logprobs) {
  kernels::SampleRow row{.logits = logits,
                         .seen_tokens = slot.seen_tokens(),
                         .mask_stop_ids = slot.masks_stop_ids(),
                         .position = slot.num_known()};
  if (mask != nullptr) {
    row.mask = mask->words;
    // A whole output ends, however short it is.
    if (mask->ends_only) row.mask_stop_ids = false;
  }
  if (slot.num_logprobs() < 0) return kernels::SampleToken(slot.params(), row, workspace_);

  // Keep the raw logits for Describe: sampling overwrites them.
  raw_.assign(logits.begin(), logits.end());
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenId token,
                            kernels::SampleToken(slot.params(), row, workspace_));
  LOCKSTEP_RETURN_IF_ERROR(Describe(raw_, token, slot.num_logprobs(), logprobs));
  return token;
}

}  // namespace lockstep::worker
