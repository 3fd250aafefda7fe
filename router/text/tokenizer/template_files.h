#pragma once

#include <absl/status/statusor.h>

#include <filesystem>

#include "common/model_files/gguf.h"
#include "common/model_files/tokenizer/tokenizer_files.h"
#include "router/text/tokenizer/template_source.h"

// Reads a model's chat templates and the special tokens that they see, as transformers' tokenizers
// read them.
namespace lockstep::router {

// From tokenizer_config.json: "chat_template", with one source or named ones, and the special
// tokens. In older folders, where tokenizer_config.json has no added_tokens_decoder, the tokens of
// special_tokens_map.json take precedence.
absl::StatusOr<TemplateSource> ReadTemplateConfig(const TokenizerFiles& files);

// From a model folder. `files` are its tokenizer files. Template files (chat_template.jinja,
// additional_chat_templates/*.jinja) replace the templates of tokenizer_config.json.
absl::StatusOr<TemplateSource> ReadTemplateFolder(const std::filesystem::path& folder,
                                                  const TokenizerFiles& files);

// From tokenizer.chat_template, tokenizer.chat_template.NAME, and the tokens named in
// tokenizer.ggml.
absl::StatusOr<TemplateSource> ReadGgufTemplates(const GgufFile& file);

}  // namespace lockstep::router
