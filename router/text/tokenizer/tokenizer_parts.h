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
#include "router/text/tokenizer/tokenizer.h"

// Between the readers of the two file formats and the one tokenizer that they make.
namespace lockstep::router {

// Larger ids are refused, before anything is sized by them. Known vocabularies stay below 300,000.
inline constexpr TokenId kMaxTokenId = (1u << 20) - 1;

struct TokenizerParts {
  std::string name;  // file, for errors
  BpeModel::Builder vocabulary;
  BpeModel::Options bpe;
  bool normalize_nfc = false;
  std::vector<PreTokenizer::Stage> pre_tokenizer;
  std::vector<AddedToken> added_tokens;
  std::vector<TokenId> prefix_ids;  // around every text that asks for special tokens
  std::vector<TokenId> suffix_ids;
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> eos_token_id;
  std::string chat_template;
};

absl::StatusOr<TokenizerParts> ReadTokenizerJson(std::string_view json, const std::string& name);
// Adds chat template, bos and eos of a tokenizer_config.json; nothing else of it is used.
absl::Status ReadTokenizerConfig(std::string_view json, const std::string& name,
                                 TokenizerParts& parts);
absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file);

// INVALID_ARGUMENT if the parts do not fit together.
absl::StatusOr<std::unique_ptr<const Tokenizer>> MakeTokenizer(TokenizerParts parts);

}  // namespace lockstep::router
