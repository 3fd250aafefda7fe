#pragma once

#include <cstdint>
#include <span>

#include "common/hash.h"
#include "common/ids.h"

// The text that simulated workers generate: a function of the prompt alone, so that everybody knows
// what must come out, whichever workers computed it.
namespace lockstep::bench {

inline constexpr TokenId kVocabularySize = 32000;

inline uint64_t HashOfPrompt(std::span<const TokenId> prompt) {
  return Hash64(std::as_bytes(prompt));
}
inline TokenId TokenAfter(uint64_t text) { return static_cast<TokenId>(text % kVocabularySize); }
inline uint64_t ExtendText(uint64_t text, TokenId token) { return CombineHashes(text, token); }

}  // namespace lockstep::bench
