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
  bool own_session = false;            // Ctrl-C in this terminal does not reach it
};

// Starts a program. Its stdin is empty. The kernel ends it with SIGKILL when the thread that called
// this ends, for whatever reason. So call this while the process has one thread.
absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// How a program ended, from waitpid: "exit code 1", "signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

struct Captured {
  int wait_status = 0;
  std::string output;  // its stdout
};
// Runs a program to its end. Its stderr is this program's own, or nothing if `quiet`. If it takes
// longer than `timeout`, kills it and returns DEADLINE_EXCEEDED.
absl::StatusOr<Captured> RunAndCapture(const std::vector<std::string>& arguments,
                                       absl::Duration timeout, bool quiet);

}  // namespace lockstep::cli
