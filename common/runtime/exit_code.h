#pragma once

#include <absl/status/status.h>

namespace lockstep {

// Of a server that can never start like this: its flags or its model must change first.
inline constexpr int kRefusedExitCode = 2;

// 0: OK; kRefusedExitCode: what was asked for cannot be; 1: any other failure, which another start
// may not have.
inline int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  const bool refused =
      absl::IsInvalidArgument(status) || absl::IsNotFound(status) || absl::IsUnimplemented(status);
  return refused ? kRefusedExitCode : 1;
}

}  // namespace lockstep
