#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/constraints/constraint.h"
#include "common/ids.h"
#include "common/model_files/tokenizer/vocabulary.h"

// The messages to the constraint engine (engine/engine.py), in the frames of
// common/caged/frame_io.h. Pure functions. The engine's answers are not trusted.
namespace lockstep {

// --- whole frames ---

// Comes first. The answer is the engine's version.
std::string VocabularyFrame(std::span<const VocabularyToken> vocabulary);
// Compiles a constraint and computes its first mask.
std::string CheckFrame(const Constraint& constraint);
// Begins a sequence in a slot, in place of any other. `end_ids`: tokens that end the output.
// `tokens`: the output so far.
std::string BeginFrame(uint32_t slot, const Constraint& constraint,
                       std::span<const TokenId> end_ids, std::span<const TokenId> tokens);
// Appends tokens to the slot's output. The answer is the mask of the next token.
std::string MaskFrame(uint32_t slot, std::span<const TokenId> tokens);
std::string ReleaseFrame(uint32_t slot);

// --- answers ---

size_t MaxEngineAnswerBytes(uint32_t vocab_size);
// The text of an answer. INVALID_ARGUMENT with the engine's reason, on one line.
// INTERNAL for bytes that are no answer.
absl::StatusOr<std::string_view> ParseEngineAnswer(std::string_view payload);
// INTERNAL if the text is no mask of such a vocabulary. Overwrites `mask`.
absl::Status ParseMask(std::string_view text, uint32_t vocab_size, TokenMask& mask);

}  // namespace lockstep
