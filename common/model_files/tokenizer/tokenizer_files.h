#pragma once

#include <absl/status/statusor.h>

#include <string>

namespace lockstep {

// The files of a model folder that define how text becomes tokens. `text` is "" if the folder has
// no such file. `name` stands for the file in errors.
struct TokenizerFiles {
  struct File {
    std::string name;
    std::string text;
  };
  File tokenizer;       // tokenizer.json
  File config;          // tokenizer_config.json
  File special_tokens;  // special_tokens_map.json
  File added_tokens;    // added_tokens.json
};

// NOT_FOUND without tokenizer.json.
absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& folder);

}  // namespace lockstep
