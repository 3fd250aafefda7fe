#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "router/core/messages/request.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// The tokens that spell the words, at the start of a text and after a space. Follows vLLM: white
// space before a word is dropped, and a spelling after a space that needs several tokens is left
// out. The result is sorted, without duplicates. INVALID_ARGUMENT for a word of white space only.
// UNIMPLEMENTED for a word of several tokens. `words`: the bad_words of a request's sampling.
absl::StatusOr<std::vector<TokenId>> BadWordTokens(
    const Tokenizer& tokenizer, const google::protobuf::RepeatedPtrField<std::string>& words);

// Makes sure that `tokens`, which are sorted, are never sampled. INVALID_ARGUMENT if there are
// allowed tokens but each is forbidden, or a stop token that min_new_tokens masks. The rest of
// `sampling` must be resolved.
absl::Status Forbid(const std::vector<TokenId>& tokens, SamplingParams& sampling);

}  // namespace lockstep::router
