#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/model_files/tokenizer/vocabulary.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// The tokens that vocabularies of all formats have for their markers.
std::vector<std::string> MarkerTokens();

// Bytes, "<s>", which ends outputs, and special tokens with these spellings.
std::unique_ptr<const Tokenizer> MarkerTokenizer(const std::vector<std::string>& markers);

// The same for the constraint engine.
std::vector<VocabularyToken> VocabularyOf(const Tokenizer& tokenizer);

}  // namespace lockstep::router
