#pragma once

#include <absl/status/status.h>

namespace lockstep {

// Of a server with wrong flags, or with a model that it cannot serve. Another start will not help.
inline constexpr int kRefusedExitCode = 2;

// The exit code of a server that failed: kRefusedExitCode, or 1 if another start might succeed.
inline int ExitCodeOf(const absl::Status& status) {
  const bool refused =
      absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status);
  return refused ? kRefusedExitCode : 1;
}

}  // namespace lockstep
