#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/json/json_node.h"
#include "common/model_files/tokenizer/tokenizer_files.h"

// The added tokens of a model folder. transformers 4 and 5 combine them from up to four files, and
// we do the same. Where the versions differ, we follow version 5.
namespace lockstep {

// Larger ids are refused before memory is sized by them. Known vocabularies stay below 300,000.
inline constexpr TokenId kMaxTokenId = (1u << 20) - 1;

// The special tokens that every tokenizer may have. New ones are numbered in this order.
inline constexpr std::array<std::string_view, 7> kSpecialTokenNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// A token that is matched in the text before anything else. The flags are those of Hugging Face's
// library.
struct AddedToken {
  TokenId id = 0;
  std::string content;  // never empty
  bool special = false;
  bool single_word = false;  // only if no word character touches it
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space after it
  bool normalized = false;   // matched in the normalised text, unless it is special

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Numbers added tokens as Hugging Face's library does. Ids in files are ignored: a token of the
// vocabulary keeps its id, and all others are numbered after the vocabulary, in their order.
class AddedTokenList {
 public:
  using FindInVocabulary = std::function<std::optional<TokenId>(std::string_view content)>;
  AddedTokenList(size_t num_vocabulary_tokens, FindInVocabulary find);

  // A known content takes the new flags, but stays special if it was special. Ignores a token
  // without content, and the id in `token`.
  void Add(AddedToken token);
  // nullptr: no added token has this content.
  const AddedToken* Find(std::string_view content) const;
  // The id of an added token or of a token in the vocabulary.
  std::optional<TokenId> FindId(std::string_view content) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  const size_t num_vocabulary_tokens_;
  const FindInVocabulary find_;
  std::vector<AddedToken> tokens_;                   // in the order of their first Add
  absl::flat_hash_map<std::string, size_t> places_;  // by content
  std::optional<TokenId> last_id_;
};

struct AddedTokens {
  std::vector<AddedToken> tokens;
  // True if the result differs from tokenizer.json's list.
  bool differs_from_list = false;
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> eos_token_id;
  // Contradictions between the files, each a line for the log.
  std::vector<std::string> warnings;
};

// `tokenizer`: the parsed tokenizer.json. `list` knows its vocabulary. `files`: the texts of all
// files. INVALID_ARGUMENT names the file and the place.
absl::StatusOr<AddedTokens> ReadAddedTokens(const JsonNode& tokenizer, const TokenizerFiles& files,
                                            AddedTokenList list);

}  // namespace lockstep
