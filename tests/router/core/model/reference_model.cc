#include "tests/router/core/model/reference_model.h"

#include <algorithm>

#include "common/hash.h"

namespace lockstep::router::testing {

uint64_t ExtendTextHash(uint64_t hash, TokenId token) { return CombineHashes(hash, token + 1); }

TokenId NextToken(const Request& request, uint32_t sample_index, uint64_t text_hash,
                  uint32_t num_generated) {
  const SamplingParams& sampling = request.sampling;
  uint64_t draw = CombineHashes(text_hash, sampling.seed);
  if (sampling.temperature > 0) draw = CombineHashes(draw, sample_index);
  const bool ends = num_generated >= sampling.min_new_tokens && draw % 12 == 0;
  if (ends && !sampling.stop_token_ids.empty()) return sampling.stop_token_ids.front();
  return 1 + static_cast<TokenId>(draw >> 8) % (kVocabularySize - 1);
}

TokenLogprobs LogprobsOf(uint64_t text_hash, TokenId token, int32_t num_best) {
  const uint64_t hash = CombineHashes(text_hash, ~uint64_t{token});
  TokenLogprobs logprobs = {.token = token,
                            .logprob = -static_cast<float>(hash % 1000) / 100,
                            .rank = 1 + static_cast<uint32_t>(hash >> 32) % kVocabularySize,
                            .top = {}};
  if (num_best > 0) logprobs.top = {{token, 0.0f}};
  return logprobs;
}

LoneRun RunAlone(const Request& request, uint32_t sample_index) {
  LoneRun run;
  uint64_t hash = 0;
  for (TokenId token : request.prompt_tokens) hash = ExtendTextHash(hash, token);
  while (run.cause == StopCause::kNone) {
    const auto num_generated = static_cast<uint32_t>(run.tokens.size());
    const TokenId token = NextToken(request, sample_index, hash, num_generated);
    hash = ExtendTextHash(hash, token);
    run.tokens.push_back(token);
    if (std::ranges::count(request.sampling.stop_token_ids, token) > 0) {
      run.cause = StopCause::kStopToken;
    } else if (run.tokens.size() == request.sampling.max_new_tokens) {
      run.cause = StopCause::kLength;
    }
  }
  return run;
}

}  // namespace lockstep::router::testing
