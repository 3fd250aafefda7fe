#include <absl/container/flat_hash_map.h>

#include <utility>

#include "common/model_files/tokenizer/byte_alphabet.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "router/text/tokenizer/tokenizer_parts.h"
#include "router/text/unicode/nfc.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // ICU and the merge queue count in 32 bits

struct TokenInfo {
  std::string bytes;  // empty: no such token
  bool special = false;
  bool plain = false;  // spelled as in the vocabulary, not in the byte alphabet
};

// Added tokens, in the order of the searches for them. Special tokens are never searched in
// normalised text: there a Kelvin sign is the letter K, so a client's text could spell a token that
// it does not contain.
struct AddedTokenSets {
  AddedTokenMatcher raw;                 // not "normalized": in the original text
  AddedTokenMatcher normalized_special;  // special: also in the original text
  AddedTokenMatcher normalized_plain;    // in the normalised text
};

class ByteLevelTokenizer final : public Tokenizer {
 public:
  ByteLevelTokenizer(TokenizerParts parts, std::vector<TokenInfo> tokens, AddedTokenSets added)
      : bpe_(parts.vocabulary.Build(parts.bpe)),
        normalize_nfc_(parts.normalize_nfc),
        pre_tokenizer_(std::move(parts.pre_tokenizer)),
        added_(std::move(added)),
        prefix_ids_(std::move(parts.prefix_ids)),
        suffix_ids_(std::move(parts.suffix_ids)),
        tokens_(std::move(tokens)),
        bos_token_id_(parts.bos_token_id),
        eos_token_id_(parts.eos_token_id),
        templates_(std::move(parts.templates)),
        warnings_(std::move(parts.warnings)) {
    for (const AddedToken& token : parts.added_tokens) ids_by_bytes_[token.content] = token.id;
    for (TokenId id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].bytes.empty()) ids_by_bytes_.try_emplace(tokens_[id].bytes, id);
    }
  }

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;

  std::string_view TokenBytes(TokenId id) const override {
    return id < tokens_.size() ? std::string_view(tokens_[id].bytes) : std::string_view();
  }
  std::string VocabularyString(TokenId id) const override {
    const std::string_view bytes = TokenBytes(id);
    if (bytes.empty() || tokens_[id].plain) return std::string(bytes);
    std::string spelling;
    for (const char byte : bytes) spelling += ByteToAlphabet(static_cast<uint8_t>(byte));
    return spelling;
  }
  bool IsSpecial(TokenId id) const override { return id < tokens_.size() && tokens_[id].special; }
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::span<const TokenId> prefix_ids() const override { return prefix_ids_; }
  std::span<const TokenId> suffix_ids() const override { return suffix_ids_; }
  uint32_t vocab_size() const override { return static_cast<uint32_t>(tokens_.size()); }
  std::optional<TokenId> bos_token_id() const override { return bos_token_id_; }
  std::optional<TokenId> eos_token_id() const override { return eos_token_id_; }
  std::optional<TokenId> FindToken(std::string_view content) const override {
    const auto it = ids_by_bytes_.find(absl::string_view(content.data(), content.size()));
    if (it == ids_by_bytes_.end()) return std::nullopt;
    return it->second;
  }
  const TemplateSource& templates() const override { return templates_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }
  std::vector<std::string> SpecialSpellings() const override {
    std::vector<std::string> spellings;
    for (const AddedTokenMatcher* set : {&added_.raw, &added_.normalized_special}) {
      for (const AddedToken& token : set->tokens()) {
        if (token.special) spellings.push_back(token.content);
      }
    }
    return spellings;
  }

 private:
  // The result of one call of Encode so far.
  struct Encoding {
    const CancelFlag* cancellation = nullptr;
    std::vector<TokenId> ids;
    std::optional<uint8_t> missing_byte;
    bool pattern_failed = false;
  };

  // Encodes original text without special tokens.
  absl::Status EncodeSegment(std::string_view text, Encoding& out) const;

  const BpeModel bpe_;
  const bool normalize_nfc_;
  const PreTokenizer pre_tokenizer_;
  const AddedTokenSets added_;
  const std::vector<TokenId> prefix_ids_;
  const std::vector<TokenId> suffix_ids_;
  const std::vector<TokenInfo> tokens_;  // by id
  const std::optional<TokenId> bos_token_id_;
  const std::optional<TokenId> eos_token_id_;
  const TemplateSource templates_;
  const std::vector<std::string> warnings_;
  absl::flat_hash_map<std::string, TokenId> ids_by_bytes_;
};

absl::StatusOr<std::vector<TokenId>> ByteLevelTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("text of {} bytes, expected at most {}", text.size(), kMaxTextBytes);
  }
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return InvalidArgument("text is not valid UTF-8 at byte {}", *offset);
  }
  Encoding out{.cancellation = options.cancellation, .ids = {}, .missing_byte = {}};
  out.ids.reserve(text.size() / 3 + prefix_ids_.size() + suffix_ids_.size());
  if (options.add_special_tokens) out.ids = prefix_ids_;
  const bool match_special = options.parse_special_tokens;
  for (const auto& outer : added_.raw.Split(text, match_special)) {
    if (outer.id) {
      out.ids.push_back(*outer.id);
      continue;
    }
    for (const auto& segment : added_.normalized_special.Split(outer.text, match_special)) {
      if (segment.id) {
        out.ids.push_back(*segment.id);
      } else {
        LOCKSTEP_RETURN_IF_ERROR(EncodeSegment(segment.text, out));
      }
    }
  }
  if (out.pattern_failed) {
    return InvalidArgument("the pre-tokenizer's pattern needs too many steps on this text");
  }
  if (out.missing_byte) {
    return InvalidArgument("the vocabulary has no token for byte 0x{:02X}, at byte {}",
                           *out.missing_byte, text.find(static_cast<char>(*out.missing_byte)));
  }
  if (options.add_special_tokens) {
    out.ids.insert(out.ids.end(), suffix_ids_.begin(), suffix_ids_.end());
  }
  return std::move(out.ids);
}

absl::Status ByteLevelTokenizer::EncodeSegment(std::string_view text, Encoding& out) const {
  std::string storage;
  if (normalize_nfc_) {
    LOCKSTEP_ASSIGN_OR_RETURN(text, NormalizeNfc(text, storage, out.cancellation));
  }
  for (const auto& segment : added_.normalized_plain.Split(text, false)) {
    if (segment.id) {
      out.ids.push_back(*segment.id);
      continue;
    }
    const bool split = pre_tokenizer_.Split(segment.text, [&](std::string_view piece) {
      const std::optional<uint8_t> missing = bpe_.EncodePiece(piece, out.ids, out.cancellation);
      if (missing && !out.missing_byte) out.missing_byte = missing;
      return !IsCancelled(out.cancellation);
    });
    if (IsCancelled(out.cancellation)) {
      return absl::CancelledError("the text is not wanted any more");
    }
    out.pattern_failed = out.pattern_failed || !split;
  }
  return absl::OkStatus();
}

std::string ByteLevelTokenizer::Decode(std::span<const TokenId> ids,
                                       bool skip_special_tokens) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !IsSpecial(id)) bytes += TokenBytes(id);
  }
  std::string text;
  std::string pending;
  AppendLossyUtf8(bytes, pending, text);
  FlushLossyUtf8(pending, text);
  return text;
}

// A token of the vocabulary. If it is outside the byte alphabet, it stands for its own text.
TokenInfo VocabularyToken(const std::string& text) {
  std::string bytes;
  if (AlphabetToBytes(text, bytes)) return {.bytes = std::move(bytes)};
  return {.bytes = text, .plain = true};
}

absl::Status CheckParts(const TokenizerParts& parts, const std::vector<TokenInfo>& tokens) {
  std::vector<std::pair<std::string_view, TokenId>> uses;
  uses.reserve(parts.prefix_ids.size() + parts.suffix_ids.size() + 1);
  for (const TokenId id : parts.prefix_ids) uses.emplace_back("prefix token", id);
  for (const TokenId id : parts.suffix_ids) uses.emplace_back("suffix token", id);
  if (parts.bos_token_id) uses.emplace_back("bos token", *parts.bos_token_id);
  if (parts.eos_token_id) uses.emplace_back("eos token", *parts.eos_token_id);
  absl::flat_hash_map<std::string, TokenId> contents;
  for (const AddedToken& token : parts.added_tokens) {
    const auto [it, inserted] = contents.try_emplace(token.content, token.id);
    if (!inserted) {
      return InvalidArgument("{}: added token {} has ids {} and {}", parts.name,
                             Quote(token.content), it->second, token.id);
    }
  }
  for (const auto& [use, id] : uses) {
    if (id >= tokens.size() || tokens[id].bytes.empty()) {
      return InvalidArgument("{}: {} {} is not in the vocabulary", parts.name, use, id);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> MakeTokenizer(TokenizerParts parts) {
  const std::vector<std::string>& texts = parts.vocabulary.texts();
  std::vector<TokenInfo> tokens(texts.size());
  for (TokenId id = 0; id < texts.size(); ++id) tokens[id] = VocabularyToken(texts[id]);
  std::vector<AddedToken> raw;
  std::vector<AddedToken> special;
  std::vector<AddedToken> plain;
  for (AddedToken token : parts.added_tokens) {
    std::string storage;
    if (token.normalized && parts.normalize_nfc) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view content,
                                NormalizeNfc(token.content, storage));
      // A template may spell the token in either form.
      if (token.special && content != token.content) special.push_back(token);
      token.content = std::string(content);
    }
    if (token.id >= tokens.size()) tokens.resize(token.id + 1);
    tokens[token.id] = {.bytes = token.content, .special = token.special, .plain = true};
    (!token.normalized ? raw : token.special ? special : plain).push_back(std::move(token));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckParts(parts, tokens));
  AddedTokenSets added{.raw = AddedTokenMatcher(std::move(raw)),
                       .normalized_special = AddedTokenMatcher(std::move(special)),
                       .normalized_plain = AddedTokenMatcher(std::move(plain))};
  return std::make_unique<ByteLevelTokenizer>(std::move(parts), std::move(tokens),
                                              std::move(added));
}

}  // namespace lockstep::router
