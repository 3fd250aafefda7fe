#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::cli {

struct ChildSpec {
  std::vector<std::string> arguments;  // the first one is the program's path
  int stdout_fd = -1;                  // -1: this program's own
  int stderr_fd = -1;                  // likewise
  bool own_session = false;            // Ctrl-C in this terminal is not for it
};

// Starts a program. The kernel ends it with SIGKILL when this one ends, however that happens. Its
// stdin is empty. Call it while the process has one thread, as the parent's death is that thread's.
absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// How a program ended, from waitpid: "exit code 1", "signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

struct Captured {
  int wait_status = 0;
  std::string output;  // its stdout
};
// Runs a program to its end. Its stderr is this program's own, unless it is `quiet`.
// DEADLINE_EXCEEDED when it takes longer; it is killed then.
absl::StatusOr<Captured> RunAndCapture(const std::vector<std::string>& arguments,
                                       absl::Duration timeout, bool quiet);

}  // namespace lockstep::cli
