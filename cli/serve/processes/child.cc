#include "cli/serve/processes/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr int kCannotStart = 127;  // exit code, as a shell's

// Between fork and exec: system calls only.
[[noreturn]] void BecomeProgram(const ChildSpec& spec, char* const* arguments,
                                char* const* variables, pid_t parent) {
  // The parent may have ended before prctl. Then nothing would end this process.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(kCannotStart);
  if (spec.own_session) setsid();
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  if (spec.stdout_fd >= 0) dup2(spec.stdout_fd, STDOUT_FILENO);
  if (spec.stderr_fd >= 0) dup2(spec.stderr_fd, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(arguments[0], arguments, variables);
  constexpr char kMessage[] = "the program cannot be started\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(kCannotStart);
}

int PollTimeoutMs(Instant deadline) {
  if (deadline == Instant::InfiniteFuture()) return -1;
  const int64_t left_ms = absl::ToInt64Milliseconds(deadline - MonotonicNow());
  return static_cast<int>(std::clamp<int64_t>(left_ms, 0, std::numeric_limits<int>::max()));
}

// Until the output ends or the time runs out. Keeps the end of the output.
void ReadToEnd(int descriptor, Instant deadline, std::string& output) {
  while (MonotonicNow() < deadline) {
    pollfd readable = {descriptor, POLLIN, 0};
    const int num_ready = poll(&readable, 1, PollTimeoutMs(deadline));
    if (num_ready < 0 && errno == EINTR) continue;
    if (num_ready <= 0) return;
    char buffer[4096];
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    output.append(buffer, static_cast<size_t>(count));
    if (output.size() > kMaxCapturedBytes) output.erase(0, output.size() - kMaxCapturedBytes);
  }
}

// Kills the program at the deadline. True if it ended before.
bool WaitForEnd(pid_t child, Instant deadline, int& wait_status) {
  constexpr absl::Duration kLookInterval = absl::Milliseconds(10);
  // Readable once the program has ended. Old kernels and some sandboxes have no such descriptor:
  // poll() leaves -1 out, and only waits.
  pollfd ended = {static_cast<int>(syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  pid_t found = 0;
  do {
    const Instant soon = MonotonicNow() + kLookInterval;
    poll(&ended, 1, PollTimeoutMs(ended.fd >= 0 ? deadline : std::min(deadline, soon)));
    found = waitpid(child, &wait_status, WNOHANG);
  } while (found == 0 && MonotonicNow() < deadline);
  if (ended.fd >= 0) close(ended.fd);
  if (found == child) return true;
  kill(child, SIGKILL);
  while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  return false;
}

}  // namespace

bool KeepsVariable(std::string_view name) {
  // Programs, folders, language and time, the loader.
  constexpr std::string_view kNames[] = {
      "PATH", "HOME",     "USER", "LOGNAME", "SHELL",           "TMPDIR",
      "LANG", "LANGUAGE", "TZ",   "TERM",    "LD_LIBRARY_PATH", "LD_PRELOAD"};
  // CUDA and its libraries, OpenMP, oneDNN, the C library's heap, sanitizers and profilers.
  constexpr std::string_view kPrefixes[] = {
      "LC_",     "CUDA_",   "CUBLAS", "NVIDIA_", "NCCL_", "OMP_",  "GOMP_",  "DNNL_",
      "ONEDNN_", "MALLOC_", "GLIBC_", "ASAN_",   "LSAN_", "TSAN_", "UBSAN_", "LLVM_PROFILE_"};
  return std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kPrefixes,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

absl::StatusOr<pid_t> StartChild(const ChildSpec& spec) {
  std::vector<char*> arguments;
  for (const std::string& argument : spec.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (spec.whole_environment || KeepsVariable(text.substr(0, text.find('=')))) {
      variables.push_back(*variable);
    }
  }
  variables.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return Unavailable("fork: {}", std::strerror(errno));
  if (child == 0) BecomeProgram(spec, arguments.data(), variables.data(), parent);
  return child;
}

std::string DescribeEnd(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit code {}", WEXITSTATUS(wait_status));
  const int signal_number = WTERMSIG(wait_status);
  return fmt::format("signal {} ({})", signal_number, strsignal(signal_number));
}

absl::StatusOr<Captured> RunAndCapture(const std::vector<std::string>& arguments,
                                       const CaptureOptions& options) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return Unavailable("pipe2: {}", std::strerror(errno));
  const int nothing = options.quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  const absl::StatusOr<pid_t> child =
      StartChild({.arguments = arguments,
                  .stdout_fd = pipe_fds[1],
                  .stderr_fd = options.with_stderr ? pipe_fds[1] : nothing,
                  .whole_environment = options.whole_environment});
  close(pipe_fds[1]);
  if (nothing >= 0) close(nothing);
  if (!child.ok()) {
    close(pipe_fds[0]);
    return child.status();
  }
  Captured captured;
  const Instant deadline = MonotonicNow() + options.timeout;
  ReadToEnd(pipe_fds[0], deadline, captured.output);
  const bool ended = WaitForEnd(*child, deadline, captured.wait_status);
  close(pipe_fds[0]);
  if (!ended) {
    return MakeError(absl::StatusCode::kDeadlineExceeded, "{} took longer than {}", arguments[0],
                     absl::FormatDuration(options.timeout));
  }
  return captured;
}

}  // namespace lockstep::cli
