#include "common/model_files/tokenizer/vocabulary.h"

#include <optional>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "common/json/json_node.h"
#include "common/model_files/file_kind.h"
#include "common/model_files/gguf.h"
#include "common/model_files/model_config.h"
#include "common/model_files/tokenizer/added_token_list.h"
#include "common/model_files/tokenizer/byte_alphabet.h"
#include "common/model_files/tokenizer/tokenizer_files.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Kinds in tokenizer.ggml.token_type. Unknown and control tokens are special, user-defined ones
// stand for their own text.
constexpr int64_t kNormalType = 1;
constexpr int64_t kUserDefinedType = 4;
constexpr int64_t kUnusedType = 5;

class VocabularyTokens {
 public:
  explicit VocabularyTokens(uint32_t vocab_size) : tokens_(vocab_size) {}

  // A token outside the byte alphabet stands for its own text.
  void AddSpelled(TokenId id, std::string_view text) {
    std::string bytes;
    if (!AlphabetToBytes(text, bytes)) bytes = text;
    Add(id, {.bytes = std::move(bytes)});
  }
  void Add(TokenId id, VocabularyToken token) {
    if (id < tokens_.size()) tokens_[id] = std::move(token);
  }
  std::vector<VocabularyToken> Take() { return std::move(tokens_); }

 private:
  std::vector<VocabularyToken> tokens_;
};

absl::StatusOr<std::vector<VocabularyToken>> OfGgufFile(const GgufFile& file, uint32_t vocab_size) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto texts, file.GetStrings("tokenizer.ggml.tokens"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                            file.GetInts("tokenizer.ggml.token_type"));
  if (texts.size() != types.size()) {
    return InvalidArgument("{}: tokenizer.ggml.token_type has {} entries, expected {}", file.name(),
                           types.size(), texts.size());
  }
  VocabularyTokens tokens(vocab_size);
  for (TokenId id = 0; id < texts.size(); ++id) {
    if (types[id] == kUnusedType) continue;
    if (types[id] == kNormalType) {
      tokens.AddSpelled(id, texts[id]);
    } else {
      tokens.Add(id, {.bytes = std::string(texts[id]), .special = types[id] != kUserDefinedType});
    }
  }
  return tokens.Take();
}

absl::StatusOr<std::vector<VocabularyToken>> OfJsonFiles(const TokenizerFiles& files,
                                                         uint32_t vocab_size) {
  const std::string& name = files.tokenizer.name;
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json document,
                            ParseModelJson(files.tokenizer.text, name));
  const JsonNode root(document, name);
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode model, root.Member("model"));
  LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode vocabulary, model.Member("vocab"));
  LOCKSTEP_RETURN_IF_ERROR(vocabulary.ExpectObject());
  VocabularyTokens tokens(vocab_size);
  for (const auto& [text, id] : vocabulary.value().items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxTokenId) {
      LOCKSTEP_ASSIGN_OR_RETURN(const JsonNode node, vocabulary.Member(text));
      return node.Unexpected(fmt::format("an id from 0 to {}", kMaxTokenId));
    }
    tokens.AddSpelled(id.get<TokenId>(), text);
  }
  const auto find = [&](std::string_view text) -> std::optional<TokenId> {
    const auto found = vocabulary.value().find(std::string(text));
    if (found == vocabulary.value().end()) return std::nullopt;
    return found->get<TokenId>();
  };
  LOCKSTEP_ASSIGN_OR_RETURN(
      const AddedTokens added,
      ReadAddedTokens(root, files, AddedTokenList(vocabulary.value().size(), find)));
  for (const AddedToken& token : added.tokens) {
    tokens.Add(token.id, {.bytes = token.content, .special = token.special});
  }
  return tokens.Take();
}

}  // namespace

absl::StatusOr<std::vector<VocabularyToken>> LoadVocabulary(const std::string& path,
                                                            uint32_t vocab_size) {
  if (IsGgufPath(path)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return OfGgufFile(file, vocab_size);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(path));
  return OfJsonFiles(files, vocab_size);
}

}  // namespace lockstep
