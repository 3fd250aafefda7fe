#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

// What the user's environment says about folders and programs. The servers read nothing of it.
namespace lockstep::cli {

// None for a variable that is not there or empty.
std::optional<std::string> EnvironmentValue(const std::string& name);

// Empty for a variable that is empty. None for one that is not there.
std::optional<std::string> EnvironmentText(const std::string& name);

// HOME, or what the system knows of the user; "/" if neither says.
std::string HomeFolder();

// The value of `variable` (XDG_STATE_HOME) if it is an absolute path, else `fallback` below the
// home folder.
std::string UserFolder(const std::string& variable, const std::string& fallback);

// The path of an executable file of this name in PATH.
std::optional<std::string> FindInPath(const std::string& name);

// The path of a program that is installed beside this one; NOT_FOUND naming where it should be.
absl::StatusOr<std::string> SiblingProgram(const std::string& name);

}  // namespace lockstep::cli
