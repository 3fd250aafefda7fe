#include "common/model_files/tokenizer/tokenizer_files.h"

#include <filesystem>
#include <string_view>
#include <utility>

#include "common/model_files/file_kind.h"
#include "common/runtime/mapped_file.h"
#include "common/status.h"

namespace lockstep {
namespace {

// Describes a folder without tokenizer.json, for the end of an error. "" if nothing is known.
std::string_view OtherVocabulary(const std::filesystem::path& folder) {
  constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
      {"tokenizer.model", "; the folder has tokenizer.model of SentencePiece, which is not read"},
      {"tekken.json", "; the folder has tekken.json, which is not read"},
      {"vocab.json",
       "; the folder has vocab.json, so save the tokenizer with a newer version of transformers"},
  };
  for (const auto& [name, what] : kFiles) {
    std::error_code error;
    if (std::filesystem::exists(folder / name, error)) return what;
  }
  return "";
}

}  // namespace

absl::StatusOr<TokenizerFiles> ReadTokenizerFiles(const std::string& folder) {
  constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;
  constexpr size_t kMaxOtherBytes = size_t{16} << 20;
  const auto path_of = [base = std::filesystem::path(folder)](std::string_view name) {
    return (base / name).string();
  };
  TokenizerFiles files;
  files.tokenizer.name = path_of("tokenizer.json");
  files.config.name = path_of("tokenizer_config.json");
  files.special_tokens.name = path_of("special_tokens_map.json");
  files.added_tokens.name = path_of("added_tokens.json");
  absl::StatusOr<std::string> tokenizer = ReadTextFile(files.tokenizer.name, kMaxTokenizerBytes);
  if (absl::IsNotFound(tokenizer.status())) {
    return NotFound("{}{}", Message(tokenizer.status()), OtherVocabulary(folder));
  }
  if (!tokenizer.ok()) return tokenizer.status();
  files.tokenizer.text = *std::move(tokenizer);
  // An empty file is an incomplete download. It does not count as absent.
  LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(files.tokenizer.text, files.tokenizer.name, "JSON"));
  for (TokenizerFiles::File* const file :
       {&files.config, &files.special_tokens, &files.added_tokens}) {
    absl::StatusOr<std::string> text = ReadTextFile(file->name, kMaxOtherBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    LOCKSTEP_RETURN_IF_ERROR(RefuseOtherKinds(*text, file->name, "JSON"));
    file->text = *std::move(text);
  }
  return files;
}

}  // namespace lockstep
