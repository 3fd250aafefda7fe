#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// For each token, the number of characters before it in the text. `text` is the text that Encode
// turned into `ids`. If `ids` include the special tokens around a text, these are placed at its
// start or end. A token that begins inside a character is at that character. Where the tokenizer
// composes or drops characters, a token is at the characters that it stands for.
std::vector<uint32_t> TokenOffsets(const Tokenizer& tokenizer, std::string_view text,
                                   std::span<const TokenId> ids);

}  // namespace lockstep::router
