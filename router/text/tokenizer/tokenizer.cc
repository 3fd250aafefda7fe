#include "router/text/tokenizer/tokenizer.h"

#include <filesystem>

#include "common/model_files/model_config.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "router/text/tokenizer/tokenizer_parts.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxTemplateBytes = size_t{16} << 20;

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadFolder(const std::filesystem::path& folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenizerFiles files, ReadTokenizerFiles(folder.string()));
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizer(files));
  // A file of its own wins over the field of the same name.
  absl::StatusOr<std::string> chat_template =
      ReadTextFile((folder / "chat_template.jinja").string(), kMaxTemplateBytes);
  if (!chat_template.ok() && !absl::IsNotFound(chat_template.status())) {
    return chat_template.status();
  }
  if (chat_template.ok() && !chat_template->empty()) {
    parts.chat_template = *std::move(chat_template);
  }
  return MakeTokenizer(std::move(parts));
}

}  // namespace

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
