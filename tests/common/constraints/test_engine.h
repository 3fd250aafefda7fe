#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/constraints/engine_process.h"

// A real constraint engine for tests. They skip where the package llguidance is missing
// (deploy/fetch-llguidance).
namespace lockstep::testing {

bool HasLlguidance();
#define LOCKSTEP_SKIP_WITHOUT_LLGUIDANCE()                              \
  if (!::lockstep::testing::HasLlguidance()) {                          \
    GTEST_SKIP() << "no llguidance: skipped (deploy/fetch-llguidance)"; \
  }                                                                     \
  static_assert(true)

// Generous limits, and the paths of this build.
ConstraintEngineConfig TestEngineConfig();

// Token b is the byte b. Behind them: an end token, a special token, an id without a token, and
// tokens of several bytes.
inline constexpr TokenId kEndToken = 256;
inline constexpr TokenId kSpecialToken = 257;  // "<|call|>"
inline constexpr TokenId kNoToken = 258;
inline constexpr TokenId kOpenQuoteToken = 259;  // {"
inline constexpr TokenId kNameToken = 260;       // name
std::vector<VocabularyToken> TestVocabulary();
std::vector<TokenId> TokensOf(std::string_view text);

// Ends the test's process if the engine does not start.
std::unique_ptr<CagedConstraintEngine> StartTestEngine(
    const ConstraintEngineConfig& config = TestEngineConfig());

// "ok" if `text`, byte by byte, and then the end token are allowed. Otherwise where it was not: the
// text so far, or "end".
std::string Walk(ConstraintEngine& engine, const Constraint& constraint, std::string_view text);

}  // namespace lockstep::testing
