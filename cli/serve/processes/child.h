#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct ChildSpec {
  std::vector<std::string> arguments;  // the first one is the program's path
  int stdout_fd = -1;                  // -1: this program's own
  int stderr_fd = -1;                  // likewise
  bool own_session = false;            // Ctrl-C in this terminal does not reach it
  // It gets all of this program's environment, including the user's keys and tokens. Otherwise only
  // the variables of KeepsVariable, which our programs' libraries read.
  bool whole_environment = false;
};

// True if a child gets this variable of the environment ("CUDA_VISIBLE_DEVICES"). Pure.
bool KeepsVariable(std::string_view name);

// Starts a program. Its stdin is empty. The kernel ends it with SIGKILL when the calling thread
// ends for any reason. So call this while the process has one thread.
absl::StatusOr<pid_t> StartChild(const ChildSpec& spec);

// How a program ended, from waitpid: "exit code 1", "signal 9 (Killed)".
std::string DescribeEnd(int wait_status);

inline constexpr size_t kMaxCapturedBytes = 64 << 10;
struct Captured {
  int wait_status = 0;
  std::string output;  // the end of its stdout, and with_stderr of its stderr
};
struct CaptureOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  bool quiet = false;        // its stderr is lost; otherwise it is this program's own
  bool with_stderr = false;  // its stderr is part of the output
  bool whole_environment = false;
};
// Runs a program to its end, also if it closes its output before. If it takes longer than the
// timeout, kills it and returns DEADLINE_EXCEEDED.
absl::StatusOr<Captured> RunAndCapture(const std::vector<std::string>& arguments,
                                       const CaptureOptions& options);

}  // namespace lockstep::cli
