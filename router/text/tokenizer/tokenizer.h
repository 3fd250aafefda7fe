#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/model_files/gguf.h"
#include "common/model_files/tokenizer/tokenizer_files.h"
#include "common/runtime/cancel_flag.h"
#include "router/text/tokenizer/template_source.h"

namespace lockstep::router {

// Byte-level BPE. Immutable after loading. Safe to use from any thread. Ids are identical to those
// of Hugging Face `tokenizers` 0.23 for the supported pre-tokenizers (GPT-2, Llama 3, Qwen2/Qwen3,
// SmolLM2, and a definition's own patterns). Anything else in the definition is an error that names
// it. Deliberate differences:
//   - A byte that the vocabulary cannot spell is an error; it is not dropped.
//   - Special tokens are found in the original text, before it is normalised, even if they are
//     marked "normalized". So no other spelling can become one, and neighbours cannot undo one.
//   - Letters and numbers are those of Unicode 16, and NFC is ICU's. Newer characters than either
//     library knows may be cut or composed differently.
class Tokenizer {
 public:
  // tokenizer.json (+ tokenizer_config.json, may be empty). `name` stands for the path in errors.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromJson(
      std::string_view tokenizer_json, std::string_view tokenizer_config_json,
      const std::string& name);
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromFiles(const TokenizerFiles& files);
  // tokenizer.ggml.* metadata.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromGguf(const GgufFile& file);
  // A model folder (the files of TokenizerFiles and of template_files.h) or a GGUF file.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(const std::string& path);

  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool add_special_tokens = true;  // bos/eos as the model's post-processor asks
    // True: "<|im_start|>" in the text is the special token. False: it is plain text.
    bool parse_special_tokens = false;
    // Ends the work soon with CANCELLED; may be null.
    const CancelFlag* cancellation = nullptr;
  };
  // INVALID_ARGUMENT with the byte offset for invalid UTF-8 and for bytes without a token. For
  // every text of n bytes the time is O(n log n).
  virtual absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                      const EncodeOptions& options) const = 0;

  // The raw bytes of one token, not always valid UTF-8. Empty for ids without a token.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  // One token as the vocabulary spells it, in the alphabet of byte_alphabet.h unless it is an added
  // token. Equals `convert_ids_to_tokens` of transformers. Empty for ids without a token.
  virtual std::string VocabularyString(TokenId id) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  // Exactly the strings that Encode turns into special tokens if `parse_special_tokens` is set. A
  // text without any of them gives no special token.
  virtual std::vector<std::string> SpecialSpellings() const = 0;
  // The whole text; invalid UTF-8 becomes U+FFFD. Ids without a token give no text: a model's
  // vocabulary may be larger than its tokenizer's.
  virtual std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const = 0;

  virtual uint32_t vocab_size() const = 0;
  // The ids that Encode puts around a text if `add_special_tokens` is set.
  virtual std::span<const TokenId> prefix_ids() const = 0;
  virtual std::span<const TokenId> suffix_ids() const = 0;
  virtual std::optional<TokenId> bos_token_id() const = 0;
  virtual std::optional<TokenId> eos_token_id() const = 0;
  // Finds a token by its bytes, in the form of TokenBytes.
  virtual std::optional<TokenId> FindToken(std::string_view content) const = 0;
  // The model's chat templates, and the special tokens that they see.
  virtual const TemplateSource& templates() const = 0;
  // Jinja source of the template for chats; empty if there is none.
  const std::string& chat_template() const;
  // Contradictions between the files, each a line for the log.
  virtual const std::vector<std::string>& warnings() const = 0;
};

}  // namespace lockstep::router
