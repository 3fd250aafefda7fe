#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep {

// The path of a program that is installed beside this one. UNAVAILABLE if this one's path is
// unknown. Does not look whether the program is there.
absl::StatusOr<std::string> PathBesideProgram(std::string_view name);

}  // namespace lockstep
