#include "router/text/tokenizer/tokenizer.h"

#include <filesystem>

#include "common/model_files/model_config.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"
#include "router/text/tokenizer/tokenizer_parts.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxTokenizerJsonBytes = size_t{256} << 20;
constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// The content of a file that a model folder may lack.
absl::StatusOr<std::string> ReadOptionalFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::string();
  return ReadTextFile(path.string(), kMaxConfigBytes);
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> LoadFolder(const std::filesystem::path& folder) {
  const std::filesystem::path json_path = folder / "tokenizer.json";
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string json,
                            ReadTextFile(json_path.string(), kMaxTokenizerJsonBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizerJson(json, json_path.string()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string config, ReadOptionalFile(config_path));
  if (!config.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(ReadTokenizerConfig(config, config_path.string(), parts));
  }
  // A file of its own wins over the field of the same name.
  LOCKSTEP_ASSIGN_OR_RETURN(std::string chat_template,
                            ReadOptionalFile(folder / "chat_template.jinja"));
  if (!chat_template.empty()) parts.chat_template = std::move(chat_template);
  return MakeTokenizer(std::move(parts));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> Tokenizer::FromJson(
    std::string_view tokenizer_json, std::string_view tokenizer_config_json,
    const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(TokenizerParts parts, ReadTokenizerJson(tokenizer_json, name));
  if (!tokenizer_config_json.empty()) {
    LOCKSTEP_RETURN_IF_ERROR(
        ReadTokenizerConfig(tokenizer_config_json, name + " (tokenizer_config.json)", parts));
  }
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
