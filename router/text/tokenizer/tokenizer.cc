#include "router/text/tokenizer/tokenizer.h"

#include <filesystem>

#include "common/model_files/model_config.h"
#include "common/status.h"
#include "router/text/tokenizer/template_files.h"
#include "router/text/tokenizer/tokenizer_parts.h"

namespace lockstep::router {
namespace {

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadFolder(const std::filesystem::path& folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(folder.string()));
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizer(files));
  LOCKSTEP_ASSIGN_OR_RETURN(parts.templates, ReadTemplateFolder(folder, files));
  return MakeTokenizer(std::move(parts));
}

}  // namespace

const std::string& Tokenizer::chat_template() const {
  static const std::string none;
  const auto it = templates().templates.find("default");
  return it == templates().templates.end() ? none : it->second;
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromJson(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json,
    const std::string& name) {
  TokenizerFiles files;
  files.tokenizer = {.name = name, .text = std::string(tokenizer_json)};
  files.config = {.name = name + " (tokenizer_config.json)",
                  .text = std::string(tokenizer_config_json)};
  return FromFiles(files);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromFiles(const TokenizerFiles& files) {
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizer(files));
  LOCKSTEP_ASSIGN_OR_RETURN(parts.templates, ReadTemplateConfig(files));
  return MakeTokenizer(std::move(parts));
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadGgufTokenizer(file));
  return MakeTokenizer(std::move(parts));
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::Load(const std::string& path) {
  if (IsGgufPath(path)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
    return FromGguf(file);
  }
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    return NotFound("{}: expected a model folder or a GGUF file", path);
  }
  return LoadFolder(path);
}

}  // namespace lockstep::router
