#include "cli/common/environment.h"

#include <absl/strings/str_split.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/program_path.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

bool IsExecutable(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::optional<std::string> EnvironmentText(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<std::string> EnvironmentValue(const std::string& name) {
  std::optional<std::string> value = EnvironmentText(name);
  return value.has_value() && value->empty() ? std::nullopt : value;
}

std::string HomeFolder() {
  if (const auto home = EnvironmentValue("HOME")) return *home;
  const passwd* const user = getpwuid(getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/";
}

std::string UserFolder(const std::string& variable, const std::string& fallback) {
  const auto value = EnvironmentValue(variable);
  return value && value->starts_with('/') ? *value : HomeFolder() + "/" + fallback;
}

std::optional<std::string> FindInPath(const std::string& name) {
  const std::string path = EnvironmentValue("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (const std::string& folder :
       static_cast<std::vector<std::string>>(absl::StrSplit(path, ':', absl::SkipEmpty()))) {
    const std::string candidate = folder + "/" + name;
    if (IsExecutable(candidate)) return candidate;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> SiblingProgram(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string path, PathBesideProgram(name));
  if (!IsExecutable(path)) return NotFound("{} is missing; it is installed with lockstep", path);
  return path;
}

}  // namespace lockstep::cli
