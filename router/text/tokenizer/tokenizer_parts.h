#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/model_files/gguf.h"
#include "router/text/tokenizer/added_tokens.h"
#include "router/text/tokenizer/bpe_model.h"
#include "router/text/tokenizer/pre_tokenizer.h"
#include "router/text/tokenizer/template_source.h"
#include "router/text/tokenizer/tokenizer.h"

// The readers of the two file formats produce these parts, and MakeTokenizer consumes them.
namespace lockstep::router {

struct TokenizerParts {
  std::string name;  // file, for errors
  BpeModel::Builder vocabulary;
  BpeModel::Options bpe;
  bool normalize_nfc = false;
  std::vector<PreTokenizer::Stage> pre_tokenizer;
  std::vector<AddedToken> added_tokens;
  std::vector<TokenId> prefix_ids;  // around every text with add_special_tokens
  std::vector<TokenId> suffix_ids;
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> eos_token_id;
  TemplateSource templates;
  std::vector<std::string> warnings;  // each a line for the log
};

// From tokenizer_config.json, reads only the added tokens. Templates stay empty.
absl::StatusOr<TokenizerParts> ReadTokenizer(const TokenizerFiles& files);
absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file);

// INVALID_ARGUMENT if the parts do not fit together.
absl::StatusOr<std::unique_ptr<const Tokenizer>> MakeTokenizer(TokenizerParts parts);

}  // namespace lockstep::router
