#include "cli/serve/processes/member.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/serve/processes/child.h"
#include "common/instant.h"
#include "common/runtime/exit_code.h"
#include "common/status.h"

namespace lockstep::cli {

std::string ListeningField(const std::string& line, const std::string& name) {
  const size_t start = line.find(" " + name + "=");
  if (!line.starts_with("LISTENING ") || start == std::string::npos) return {};
  const size_t value = start + name.size() + 2;
  return line.substr(value, line.find_first_of(" \n", value) - value);
}

Member::~Member() {
  Kill();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  if (stdout_fd_ >= 0) close(stdout_fd_);
}

absl::Status Member::Start(Instant now) {
  due_ = Instant::InfiniteFuture();
  // If other users can write to the folder, a link could lead to any file of this user.
  const int log =
      open(spec_.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (log < 0 && errno == ELOOP) {
    return Unavailable("{}: a symbolic link, expected a file or nothing", spec_.log_path);
  }
  if (log < 0) return Unavailable("{}: {}", spec_.log_path, std::strerror(errno));
  log_.SkipToEnd();
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    const int error = errno;
    close(log);
    return Unavailable("pipe2: {}", std::strerror(error));
  }
  const absl::StatusOr<pid_t> child = StartChild({.arguments = spec_.arguments,
                                                  .stdout_fd = pipe_fds[1],
                                                  .stderr_fd = log,
                                                  .own_session = true});
  close(log);
  close(pipe_fds[1]);
  if (!child.ok()) {
    close(pipe_fds[0]);
    return child.status();
  }
  pid_ = *child;
  stdout_fd_ = pipe_fds[0];
  policy_.OnStarted(now);
  return absl::OkStatus();
}

void Member::End() {
  if (pid_ <= 0 || was_asked_to_end_) return;
  kill(pid_, listening() ? SIGTERM : SIGKILL);
  was_asked_to_end_ = true;
}

void Member::Kill() const {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

bool Member::ReadOutput() {
  char buffer[512];
  for (;;) {
    const ssize_t count = read(stdout_fd_, buffer, sizeof(buffer));
    if (count < 0) break;  // nothing more for now
    if (count == 0) {
      close(stdout_fd_);
      stdout_fd_ = -1;
      break;
    }
    if (!listening()) output_.append(buffer, static_cast<size_t>(count));
  }
  const size_t end = output_.find('\n');
  if (listening() || end == std::string::npos) return false;
  const std::string line = output_.substr(0, end);
  output_.erase(0, end + 1);
  grpc_address_ = ListeningField(line, "grpc");
  admin_address_ = ListeningField(line, "admin");
  if (!listening()) return false;
  policy_.OnReady();
  return true;
}

void Member::ReadLog() {
  if (auto progress = FindProgress(log_.ReadNew())) progress_ = std::move(progress);
}

std::optional<Member::Ended> Member::Reap(Instant now) {
  Ended end;
  if (pid_ <= 0 || waitpid(pid_, &end.wait_status, WNOHANG) != pid_) return std::nullopt;
  end.listened = listening();
  const bool refuses =
      WIFEXITED(end.wait_status) && WEXITSTATUS(end.wait_status) == kRefusedExitCode;
  if (!was_asked_to_end_) end.verdict = policy_.OnEnded(now, refuses);
  Forget();
  return end;
}

void Member::Forget() {
  pid_ = -1;
  was_asked_to_end_ = false;
  if (stdout_fd_ >= 0) close(stdout_fd_);
  stdout_fd_ = -1;
  output_.clear();
  grpc_address_.clear();
  admin_address_.clear();
  progress_.reset();
}

}  // namespace lockstep::cli
