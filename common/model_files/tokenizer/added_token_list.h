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

// The added tokens of a model folder. transformers 4 and 5 put them together from up to four files,
// and this does the same. Where the versions differ, this follows version 5.
namespace lockstep {

// Larger ids are refused, before anything is sized by them. Known vocabularies stay below 300,000.
inline constexpr TokenId kMaxTokenId = (1u << 20) - 1;

// The names that every tokenizer may have a special token for, in the order in which new ones are
// numbered.
inline constexpr std::array<std::string_view, 7> kSpecialTokenNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// A token that is matched as text before anything else, with the meaning of its flags in Hugging
// Face's library.
struct AddedToken {
  TokenId id = 0;
  std::string content;  // never empty
  bool special = false;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
  bool normalized = false;   // matched in the normalised text, unless it is special

  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

// Numbers added tokens as Hugging Face's library does. It ignores ids in files: a token of the
// vocabulary keeps its id, and all others follow the vocabulary in the order in which they come.
class AddedTokenList {
 public:
  using FindInVocabulary = std::function<std::optional<TokenId>(std::string_view content)>;
  AddedTokenList(size_t num_vocabulary_tokens, FindInVocabulary find);

  // A content that is known takes the new flags, but stays special if it was. Ignores a token
  // without content, and the id in `token`.
  void Add(AddedToken token);
  // nullptr: no added token has this content.
  const AddedToken* Find(std::string_view content) const;
  // Of an added token or of one in the vocabulary.
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
  // Differs from what tokenizer.json lists.
  bool differs_from_list = false;
  std::optional<TokenId> bos_token_id;
  std::optional<TokenId> eos_token_id;
  // What the files say differently, each a line for the log.
  std::vector<std::string> warnings;
};

// `tokenizer`: the parsed tokenizer.json, whose vocabulary `list` knows. `files`: the texts beside
// it. INVALID_ARGUMENT names the file and the place.
absl::StatusOr<AddedTokens> ReadAddedTokens(const JsonNode& tokenizer, const TokenizerFiles& files,
                                            AddedTokenList list);

}  // namespace lockstep
