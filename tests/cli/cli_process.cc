#include "tests/cli/cli_process.h"

#include <absl/time/clock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/instant.h"
#include "common/runtime/clock.h"

namespace lockstep::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr char kProgram[] = LOCKSTEP_BIN_DIR "/lockstep";

int LeftMs(Instant deadline) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::max(deadline - MonotonicNow(), absl::ZeroDuration())));
}

[[noreturn]] void Become(const std::vector<std::string>& arguments,
                         const CliProcess::Options& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  const char* const program = options.program.empty() ? kProgram : options.program.c_str();
  std::vector<char*> pointers = {const_cast<char*>(program)};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  execv(program, pointers.data());
  _exit(127);
}

// "Name" and "PPid" of /proc/PID/status.
std::string StatusField(const std::filesystem::path& folder, const std::string& name) {
  std::ifstream file(folder / "status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return {};
}

}  // namespace

CliProcess::CliProcess(const std::vector<std::string>& arguments, const Options& options) {
  if (options.terminal) {
    winsize size = {};
    size.ws_row = 24;
    size.ws_col = 100;
    pid_ = forkpty(&descriptor_, nullptr, nullptr, &size);
    if (pid_ == 0) Become(arguments, options);
  } else {
    int pipe_fds[2];
    EXPECT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_fds[1], STDOUT_FILENO);
      dup2(pipe_fds[1], STDERR_FILENO);
      Become(arguments, options);
    }
    close(pipe_fds[1]);
    descriptor_ = pipe_fds[0];
  }
  EXPECT_GT(pid_, 0);
}

CliProcess::~CliProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(descriptor_);
}

bool CliProcess::ReadMore(Instant deadline) {
  pollfd readable = {descriptor_, POLLIN, 0};
  if (poll(&readable, 1, LeftMs(deadline)) <= 0) return false;
  char buffer[4096];
  const ssize_t count = read(descriptor_, buffer, sizeof(buffer));
  if (count <= 0) return false;  // a terminal that was closed is an error
  output_.append(buffer, static_cast<size_t>(count));
  return true;
}

bool CliProcess::WaitFor(std::string_view text) {
  const Instant deadline = MonotonicNow() + kPatience;
  for (;;) {
    const size_t at = output_.find(text, found_up_to_);
    if (at != std::string::npos) {
      found_up_to_ = at + text.size();
      return true;
    }
    if (!ReadMore(deadline)) break;
  }
  ADD_FAILURE() << "never printed \"" << text << "\", but:\n" << output_;
  return false;
}

void CliProcess::Type(std::string_view text) const {
  EXPECT_EQ(write(descriptor_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void CliProcess::Signal(int signal_number) const { kill(pid_, signal_number); }

int CliProcess::Wait() {
  const Instant deadline = MonotonicNow() + kPatience;
  while (ReadMore(deadline)) {
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended = {pidfd, POLLIN, 0};
  const bool in_time = poll(&ended, 1, LeftMs(deadline)) > 0;
  close(pidfd);
  if (!in_time) return -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::multimap<std::string, pid_t> ChildrenOf(pid_t pid) {
  std::multimap<std::string, pid_t> children;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (StatusField(entry.path(), "PPid") != std::to_string(pid)) continue;
    children.emplace(StatusField(entry.path(), "Name"), std::stoi(name));
  }
  return children;
}

bool IsGone(pid_t pid) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return errno == ESRCH;
  pollfd ended = {pidfd, POLLIN, 0};
  const bool gone = poll(&ended, 1, LeftMs(MonotonicNow() + kPatience)) > 0;
  close(pidfd);
  return gone;
}

std::string WordAfter(const std::string& text, const std::string& label) {
  const size_t at = text.find(label);
  if (at == std::string::npos) return {};
  const size_t start = text.find_first_not_of(' ', at + label.size());
  return text.substr(start, text.find_first_of(" \r\n", start) - start);
}

}  // namespace lockstep::testing
