#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// One token of a vocabulary.
struct VocabularyToken {
  std::string bytes;     // that it stands for; empty: the id has no token
  bool special = false;  // a mark for the model, no part of a text
};

// The tokens of a model by id, for readers that cut no texts. `path`: a folder with tokenizer.json,
// or a GGUF file. The result has `vocab_size` entries: a model may have more ids than its tokenizer
// has tokens, and fewer. Byte-level vocabularies only, as router/text/tokenizer/tokenizer.h reads
// them. NOT_FOUND without a tokenizer, INVALID_ARGUMENT names the file and the place.
absl::StatusOr<std::vector<VocabularyToken>> LoadVocabulary(const std::string& path,
                                                            uint32_t vocab_size);

}  // namespace lockstep
