#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

// The user's environment: folders and programs. The servers read nothing of it.
namespace lockstep::cli {

// None if the variable is not set or empty.
std::optional<std::string> EnvironmentValue(const std::string& name);

// Empty if the variable is empty. None if it is not set.
std::optional<std::string> EnvironmentText(const std::string& name);

// HOME, or else the folder in the system's user database; "/" if there is neither.
std::string HomeFolder();

// The value of `variable` (XDG_STATE_HOME) if it is an absolute path, else `fallback` below the
// home folder.
std::string UserFolder(const std::string& variable, const std::string& fallback);

// The path of an executable file of this name in PATH.
std::optional<std::string> FindInPath(const std::string& name);

// The path of a program that is installed beside this one; NOT_FOUND naming where it should be.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

}  // namespace lockstep::cli
