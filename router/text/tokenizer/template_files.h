#pragma once

#include <absl/status/statusor.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "common/model_files/gguf.h"
#include "router/text/tokenizer/template_source.h"

// Where a model keeps its chat templates and the special tokens that they see, read as
// transformers' tokenizers read them.
namespace lockstep::router {

// Of a tokenizer_config.json: "chat_template", one source or named ones, and the special tokens.
// `special_tokens_map_json` is that of special_tokens_map.json, or empty. It wins if the
// configuration is so old that it lists no added tokens.
absl::StatusOr<TemplateSource> ReadTemplateConfig(std::string_view config_json,
                                                  const std::string& name,
                                                  std::string_view special_tokens_map_json = "",
                                                  const std::string& map_name = "");

// Of a model folder. Files of templates (chat_template.jinja, additional_chat_templates/*.jinja)
// replace those of tokenizer_config.json. A folder may have none of these files.
absl::StatusOr<TemplateSource> ReadTemplateFolder(const std::filesystem::path& folder);

// tokenizer.chat_template, tokenizer.chat_template.NAME, and the tokens named in tokenizer.ggml.
absl::StatusOr<TemplateSource> ReadGgufTemplates(const GgufFile& file);

}  // namespace lockstep::router
