#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/gguf.h"
#include "common/ids.h"

namespace lockstep::router {

// Byte-level BPE, immutable after loading and safe to use from any number of threads at once.
// Ids are byte-identical to Hugging Face `tokenizers` for the pre-tokenizers it supports (GPT-2,
// Llama 3, Qwen2/Qwen3, SmolLM2); anything else in the definition is an error that names it.
class Tokenizer {
 public:
  // tokenizer.json (+ tokenizer_config.json, may be empty, for the chat template and bos/eos names).
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromJson(std::string_view tokenizer_json,
                                                                   std::string_view tokenizer_config_json,
                                                                   const std::string& name);
  // tokenizer.ggml.* metadata.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> FromGguf(const GgufFile& file);
  // A model folder or a *.gguf file.
  static absl::StatusOr<std::unique_ptr<const Tokenizer>> Load(const std::string& path);

  virtual ~Tokenizer() = default;

  struct EncodeOptions {
    bool add_special_tokens = true;    // bos/eos as the model's post-processor asks
    bool parse_special_tokens = false; // "<|im_start|>" in the text is the special token; else plain text
  };
  // INVALID_ARGUMENT with the byte offset for invalid UTF-8.
  virtual absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                      const EncodeOptions& options) const = 0;

  // The raw bytes of one token (not necessarily valid UTF-8); empty for ids without a token.
  virtual std::string_view TokenBytes(TokenId id) const = 0;
  virtual bool IsSpecial(TokenId id) const = 0;
  // The whole text; invalid UTF-8 becomes U+FFFD. OUT_OF_RANGE ids give INVALID_ARGUMENT.
  virtual absl::StatusOr<std::string> Decode(std::span<const TokenId> ids,
                                             bool skip_special_tokens) const = 0;

  virtual uint32_t vocab_size() const = 0;
  virtual std::optional<TokenId> bos_token_id() const = 0;
  virtual std::optional<TokenId> eos_token_id() const = 0;
  virtual std::optional<TokenId> FindToken(std::string_view content) const = 0;
  // Jinja source of the model's chat template; empty if it has none.
  virtual const std::string& chat_template() const = 0;
  virtual uint64_t Fingerprint() const = 0;
};

}  // namespace lockstep::router
