#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// Where each token begins in the text that Encode made the tokens of, in characters. `ids` has what
// Encode puts around a text that asks for special tokens: these tokens are at the text's start or
// end. A token that begins inside of a character is at that character. Where the tokenizer composes
// or drops characters, the place is that of the characters which the token stands for.
std::vector<uint32_t> TokenOffsets(const Tokenizer& tokenizer, std::string_view text,
                                   std::span<const TokenId> ids);

}  // namespace lockstep::router
