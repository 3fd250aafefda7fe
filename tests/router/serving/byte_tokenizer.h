#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "router/serving/prompts/served_model.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::testing {

// One token per byte, and three special tokens; so tests can read token ids.
class ByteTokenizer final : public router::Tokenizer {
 public:
  static constexpr TokenId kStart = 256;  // "<|im_start|>"
  static constexpr TokenId kEnd = 257;    // "<|im_end|>"
  static constexpr TokenId kBos = 258;    // "<s>"
  static constexpr uint32_t kVocabSize = 259;

  explicit ByteTokenizer(const std::string& chat_template = "");

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const override;
  std::string_view TokenBytes(TokenId id) const override {
    return id < kVocabSize ? std::string_view(tokens_[id]) : std::string_view();
  }
  std::string VocabularyString(TokenId id) const override;
  bool IsSpecial(TokenId id) const override { return id >= kStart && id < kVocabSize; }
  std::vector<std::string> SpecialSpellings() const override {
    return {tokens_.begin() + kStart, tokens_.end()};
  }
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::span<const TokenId> prefix_ids() const override { return prefix_ids_; }
  std::span<const TokenId> suffix_ids() const override { return {}; }
  uint32_t vocab_size() const override { return kVocabSize; }
  std::optional<TokenId> bos_token_id() const override { return kBos; }
  std::optional<TokenId> eos_token_id() const override { return kEnd; }
  std::optional<TokenId> FindToken(std::string_view content) const override;
  const router::TemplateSource& templates() const override { return templates_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  router::TemplateSource templates_;
  const std::vector<TokenId> prefix_ids_ = {kBos};
  const std::vector<std::string> warnings_;
  std::vector<std::string> tokens_;
};

// "<|im_start|>user\n...<|im_end|>\n" as most chat models have it.
extern const char kChatMlTemplate[];

// A model of that tokenizer; an empty template means none.
router::ServedModel MakeByteModel(const std::string& chat_template = kChatMlTemplate,
                                  uint32_t max_context_tokens = 256);

std::vector<TokenId> Bytes(std::string_view text);

}  // namespace lockstep::testing
