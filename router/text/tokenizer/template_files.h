#pragma once

#include <absl/status/statusor.h>

#include <filesystem>

#include "common/model_files/gguf.h"
#include "common/model_files/tokenizer/tokenizer_files.h"
#include "router/text/tokenizer/template_source.h"

// Where a model keeps its chat templates and the special tokens that they see, read as
// transformers' tokenizers read them.
namespace lockstep::router {

// Of tokenizer_config.json: "chat_template", one source or named ones, and the special tokens.
// Those of special_tokens_map.json win in older folders, whose tokenizer_config.json has no
// added_tokens_decoder.
absl::StatusOr<TemplateSource> ReadTemplateConfig(const TokenizerFiles& files);

// Of a model folder whose tokenizer has `files`. Files of templates (chat_template.jinja,
// additional_chat_templates/*.jinja) replace those of tokenizer_config.json.
absl::StatusOr<TemplateSource> ReadTemplateFolder(const std::filesystem::path& folder,
                                                  const TokenizerFiles& files);

// tokenizer.chat_template, tokenizer.chat_template.NAME, and the tokens named in tokenizer.ggml.
absl::StatusOr<TemplateSource> ReadGgufTemplates(const GgufFile& file);

}  // namespace lockstep::router
