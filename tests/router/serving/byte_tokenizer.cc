#include "tests/router/serving/byte_tokenizer.h"

#include <utility>

#include "common/check.h"
#include "common/model_files/tokenizer/byte_alphabet.h"
#include "common/status.h"
#include "tests/router/templates/test_templates.h"

namespace lockstep::testing {

const char kChatMlTemplate[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\\n' }}"
    "{% endif %}";

ByteTokenizer::ByteTokenizer(const std::string& chat_template)
    : templates_(SourceOf(chat_template, "<s>", "<|im_end|>")) {
  if (chat_template.empty()) templates_.templates.clear();
  for (int byte = 0; byte < 256; ++byte) tokens_.emplace_back(1, static_cast<char>(byte));
  tokens_.insert(tokens_.end(), {"<|im_start|>", "<|im_end|>", "<s>"});
}

absl::StatusOr<std::vector<TokenId>> ByteTokenizer::Encode(std::string_view text,
                                                           const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids.push_back(kBos);
  while (!text.empty()) {
    TokenId id = static_cast<unsigned char>(text[0]);
    for (TokenId special = kStart; options.parse_special_tokens && special < kVocabSize;
         ++special) {
      if (text.starts_with(tokens_[special])) id = special;
    }
    ids.push_back(id);
    text.remove_prefix(tokens_[id].size());
  }
  return ids;
}

std::string ByteTokenizer::VocabularyString(TokenId id) const {
  if (id >= kVocabSize) return {};
  return id < kStart ? ByteToAlphabet(static_cast<uint8_t>(id)) : tokens_.at(id);
}

std::string ByteTokenizer::Decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  std::string text;
  for (const TokenId id : ids) {
    if (!skip_special_tokens || !IsSpecial(id)) text += TokenBytes(id);
  }
  return text;
}

std::optional<TokenId> ByteTokenizer::FindToken(std::string_view content) const {
  for (TokenId id = 0; id < kVocabSize; ++id) {
    if (tokens_[id] == content) return id;
  }
  return std::nullopt;
}

router::ServedModel MakeByteModel(const std::string& chat_template, uint32_t max_context_tokens) {
  router::ServedModel model;
  model.id = "bytes";
  model.config.vocab_size = ByteTokenizer::kVocabSize;
  model.config.max_context_tokens = max_context_tokens;
  model.config.eos_token_ids = {ByteTokenizer::kEnd};
  model.tokenizer = std::make_unique<ByteTokenizer>(chat_template);
  if (!chat_template.empty()) {
    auto parsed = LoadTestTemplate(model.tokenizer->templates());
    LOCKSTEP_CHECK(parsed.ok(), "the test's template is valid: {}", Message(parsed.status()));
    model.chat_template = *std::move(parsed);
  }
  return model;
}

std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace lockstep::testing
