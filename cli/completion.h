#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::cli {

// A script for the shell "bash", "zsh" or "fish" that completes verbs, options and files.
// INVALID_ARGUMENT for another shell.
absl::StatusOr<std::string> CompletionScript(std::string_view shell);

}  // namespace lockstep::cli
