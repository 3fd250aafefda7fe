#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "router/core/messages/request.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// The tokens that spell the words, at the start of a text and after a space, as vLLM takes them:
// white space before a word is dropped, and a spelling after a space that has several tokens is
// left out. Sorted, each once. INVALID_ARGUMENT for a word of white space alone, UNIMPLEMENTED for
// one of several tokens; `words` are those of a request's sampling.
absl::StatusOr<std::vector<TokenId>> BadWordTokens(
    const Tokenizer& tokenizer, const google::protobuf::RepeatedPtrField<std::string>& words);

// These tokens, sorted, are never sampled. INVALID_ARGUMENT if no allowed token is left
// that min_new_tokens does not mask. Everything else of `sampling` is resolved.
absl::Status Forbid(const std::vector<TokenId>& tokens, SamplingParams& sampling);

}  // namespace lockstep::router
