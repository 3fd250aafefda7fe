#include "cli/serve/model/model_argument.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/model_files/file_kind.h"
#include "common/model_files/model_config.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

bool IsHubWord(std::string_view word) {
  constexpr size_t kMaxLength = 96;
  return !word.empty() && word.size() <= kMaxLength && word != "." && word != ".." &&
         word.front() != '-' && std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

}  // namespace

bool IsHubName(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && IsHubWord(text.substr(0, slash)) &&
         IsHubWord(text.substr(slash + 1)) && !text.ends_with(".gguf");
}

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::Status CheckModelPath(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFound("{}: no such file or folder", path);
  }
  if (error) return Unavailable("{}: {}", path, error.message());
  const bool is_gguf = fs::is_regular_file(status) && IsGgufPath(path);
  const bool is_folder =
      fs::is_directory(status) && fs::is_regular_file(fs::path(path) / "config.json", error);
  if (is_gguf || is_folder) return absl::OkStatus();
  return InvalidArgument("{} is neither a GGUF file nor a folder with config.json{}", path,
                         DescribeModelPath(path));
}

}  // namespace lockstep::cli
