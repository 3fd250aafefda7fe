#include "tests/rigs/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"

extern char** environ;

namespace lockstep::testing {
namespace {

constexpr int kListeningTimeoutMs = 600'000;

std::string Field(const std::string& line, const std::string& name) {
  const size_t start = line.find(name + "=");
  if (start == std::string::npos) return {};
  const size_t value = start + name.size() + 1;
  return line.substr(value, line.find_first_of(" \n", value) - value);
}

// No thread of the process runs, or will run.
bool IsStopped(pid_t pid) {
  std::error_code error;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);
    // The state is the first letter behind the name, which is in parentheses.
    const size_t end = text.rfind(") ");
    if (end != std::string::npos && text[end + 2] != 'T') return false;
  }
  return !error;
}

}  // namespace

std::string OwnLoopback() {
  const int pid = getpid();
  return fmt::format("127.{}.{}.{}", 1 + pid / 254 / 256 % 254, pid / 254 % 256, 1 + pid % 254);
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& arguments) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return Internal("pipe2: {}", std::strerror(errno));
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  ChildProcess child;
  const int error = posix_spawn(&child.pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  child.stdout_fd_ = pipe_fds[0];
  if (error != 0) {
    child.pid_ = -1;
    return Internal("{}: {}", arguments[0], std::strerror(error));
  }
  LOCKSTEP_RETURN_IF_ERROR(Annotate(child.ReadListeningLine(), arguments[0]));
  return child;
}

absl::Status ChildProcess::ReadListeningLine() {
  std::string line;
  while (line.find('\n') == std::string::npos) {
    pollfd ready{.fd = stdout_fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, kListeningTimeoutMs) <= 0) return Internal("no LISTENING line in time");
    char buffer[512];
    const ssize_t count = read(stdout_fd_, buffer, sizeof(buffer));
    if (count <= 0) return Internal("ended before its LISTENING line");
    line.append(buffer, static_cast<size_t>(count));
  }
  grpc_address_ = Field(line, "grpc");
  admin_address_ = Field(line, "admin");
  http_address_ = Field(line, "http");
  if (grpc_address_.empty() || admin_address_.empty())
    return Internal("unexpected line '{}'", line);
  return absl::OkStatus();
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(stdout_fd_, other.stdout_fd_);
  std::swap(grpc_address_, other.grpc_address_);
  std::swap(admin_address_, other.admin_address_);
  std::swap(http_address_, other.http_address_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (stdout_fd_ >= 0) close(stdout_fd_);
}

void ChildProcess::Signal(int signal_number) const { SendSignal(pid_, signal_number); }

uint64_t ChildProcess::ResidentKib() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  uint64_t size_pages = 0;
  uint64_t resident_pages = 0;
  if (!(file >> size_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

int ChildProcess::Wait(absl::Duration timeout) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd >= 0) {
    pollfd ended{.fd = pidfd, .events = POLLIN, .revents = 0};
    const int ready = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    close(pidfd);
    if (ready <= 0) kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    if (ready <= 0) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return -1;
}

void SendSignal(pid_t pid, int signal_number) {
  kill(pid, signal_number);
  if (signal_number == SIGKILL) {
    // A process that is not our child cannot be waited for.
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
    return;
  }
  if (signal_number != SIGSTOP) return;
  const Instant give_up = MonotonicNow() + absl::Seconds(60);
  while (!IsStopped(pid) && MonotonicNow() < give_up) sched_yield();
}

absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path) {
  namespace asio = boost::asio;
  const size_t colon = address.rfind(':');
  boost::system::error_code error;
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  const auto endpoints = asio::ip::tcp::resolver(context).resolve(address.substr(0, colon),
                                                                  address.substr(colon + 1), error);
  if (!error) asio::connect(socket, endpoints, error);
  if (error) return Unavailable("{}: {}", address, error.message());
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  asio::write(socket, asio::buffer(request), error);
  std::string answer;
  asio::read(socket, asio::dynamic_buffer(answer), error);
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return Internal("{}{}: no HTTP answer", address, path);
  if (answer.rfind("HTTP/1.1 200", 0) != 0) {
    return Unavailable("{}{}: {}", address, path, answer.substr(0, answer.find("\r\n")));
  }
  return answer.substr(body + 4);
}

absl::StatusOr<double> MetricValue(const std::string& metrics_text, const std::string& series) {
  size_t line = 0;
  while (line < metrics_text.size()) {
    const size_t end = std::min(metrics_text.find('\n', line), metrics_text.size());
    if (metrics_text.compare(line, series.size() + 1, series + " ") == 0) {
      return std::strtod(metrics_text.c_str() + line + series.size() + 1, nullptr);
    }
    line = end + 1;
  }
  return NotFound("no series {}", series);
}

Outcome RunShell(const std::string& command) {
  Outcome outcome;
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe)) {
    outcome.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace lockstep::testing
