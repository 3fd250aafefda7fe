#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/core/messages/request.h"
#include "router/core/messages/step.h"

// The text that a request gets, as a function of the request alone. Whatever a scheduler does, this
// is what must come out.
namespace lockstep::router::testing {

inline constexpr TokenId kVocabularySize = 4;
inline constexpr TokenId kEndToken = 0;

// The hash of a text that is one token longer than the text of `hash` (0: the empty text).
uint64_t ExtendTextHash(uint64_t hash, TokenId token);

// The next token after the text of `hash`. Greedy requests (temperature 0) ignore the sample index.
TokenId NextToken(const Request& request, uint32_t sample_index, uint64_t text_hash,
                  uint32_t num_generated);

// What a worker says of `token` after the text of `hash`.
// With the token itself as the best one, if any best ones are asked for.
TokenLogprobs LogprobsOf(uint64_t text_hash, TokenId token, int32_t num_best = 0);

struct LoneRun {
  std::vector<TokenId> tokens;  // generated
  StopCause cause = StopCause::kNone;
};
LoneRun RunAlone(const Request& request, uint32_t sample_index);

}  // namespace lockstep::router::testing
