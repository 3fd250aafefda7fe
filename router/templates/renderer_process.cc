#include "router/templates/renderer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/status.h"
#include "common/violations.h"
#include "router/templates/frame_io.h"
#include "router/templates/renderer_frames.h"

namespace lockstep::router {
namespace {

constexpr char kProgramName[] = "lockstep-template-renderer";
// Descriptors of the child: its socket is standard input, and this is the program's file.
constexpr int kProgramFd = 3;
constexpr char kProgramPath[] = "/proc/self/fd/3";
constexpr int kLowestOwnFd = 10;  // so that none of ours is among those of the child

using SteadyTime = std::chrono::steady_clock::time_point;

absl::Duration Since(SteadyTime start) {
  return absl::FromChrono(std::chrono::steady_clock::now() - start);
}

// For poll: rounded up, and 0 when nothing is left.
int WaitMilliseconds(absl::Duration left) {
  if (left <= absl::ZeroDuration()) return 0;
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

// posix_spawn's two parameter blocks.
class SpawnPlan {
 public:
  explicit SpawnPlan(int program_fd, int child_socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, child_socket, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    // What a sanitizer finds in the child belongs into the log of the test.
    if (!kSanitized) posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, program_fd, kProgramFd);
    posix_spawn_file_actions_addclosefrom_np(&actions_, kProgramFd + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // The child's id, or an error number.
  absl::StatusOr<pid_t> Spawn(std::array<std::string, 3> arguments) const {
    std::array<char*, 5> argv{const_cast<char*>(kProgramName), arguments[0].data(),
                              arguments[1].data(), arguments[2].data(), nullptr};
    std::array<char*, 1> environment{nullptr};
    pid_t pid = -1;
    const int error =
        posix_spawn(&pid, kProgramPath, &actions_, &attributes_, argv.data(), environment.data());
    if (error == 0) return pid;
    return Unavailable("cannot start {}: {}", kProgramName, std::strerror(error));
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

RendererEnd EndOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal_number = WTERMSIG(wait_status);
    if (signal_number == SIGPROF) return RendererEnd::kTime;
    // SIGKILL here is not ours: the kernel short of memory, or an operator.
    const bool foreign = signal_number == SIGKILL || signal_number == SIGTERM;
    return foreign ? RendererEnd::kGone : RendererEnd::kCrash;
  }
  switch (static_cast<RendererExit>(WEXITSTATUS(wait_status))) {
    case RendererExit::kRetired:
    case RendererExit::kMisused:
    case RendererExit::kNotLoaded:
      return RendererEnd::kGone;
    case RendererExit::kMemory:
      return RendererEnd::kMemory;
    case RendererExit::kStack:
      return RendererEnd::kStack;
  }
  return RendererEnd::kCrash;
}

absl::Status ErrorOf(RendererEnd end, const RendererLimits& limits, absl::Duration limit,
                     std::string_view doing) {
  switch (end) {
    case RendererEnd::kTime:
      return InvalidArgument("chat template: {} takes more than {}", doing,
                             absl::FormatDuration(limit));
    case RendererEnd::kMemory:
      return InvalidArgument("chat template: {} needs more than {} MiB", doing, limits.memory_mib);
    case RendererEnd::kStack:
      return InvalidArgument("chat template: {} refers to itself or nests too deeply", doing);
    case RendererEnd::kCrash:
      return InvalidArgument("chat template: {} made the template renderer crash", doing);
    case RendererEnd::kGone:
      break;
  }
  return Unavailable(
      "the template renderer ended, or could not start: a shared library is missing (it has an "
      "empty environment), or this system refuses its limits");
}

}  // namespace

absl::Status RendererLimits::Validate() const {
  Violations violations;
  violations.Require(time >= absl::Milliseconds(1) && time <= absl::Seconds(10),
                     "template_timeout: must be from 1ms to 10s");
  violations.Require(load_time >= absl::Milliseconds(1) && load_time <= absl::Minutes(1),
                     "template load time: must be from 1ms to 1m");
  violations.Require(memory_mib >= 64 && memory_mib <= 1u << 20,
                     "template memory: must be from 64 to 1048576 MiB");
  return violations.ToStatus();
}

absl::StatusOr<RendererProgram> RendererProgram::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0 || faccessat(AT_FDCWD, path.c_str(), X_OK, 0) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return NotFound("{}: the template renderer cannot be executed: {}", path, std::strerror(error));
  }
  const int high_fd = fcntl(fd, F_DUPFD_CLOEXEC, kLowestOwnFd);
  close(fd);
  if (high_fd < 0) return Unavailable("{}: {}", path, std::strerror(errno));
  return RendererProgram(high_fd);
}

RendererProgram::RendererProgram(RendererProgram&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

RendererProgram& RendererProgram::operator=(RendererProgram&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

RendererProgram::~RendererProgram() {
  if (fd_ >= 0) close(fd_);
}

RendererProcess::RendererProcess(pid_t pid, int socket, const RendererLimits& limits)
    : pid_(pid), socket_(socket), limits_(limits) {
  clock_getcpuclockid(pid, &cpu_clock_);
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererProcess::Start(
    const RendererProgram& program, const RendererLimits& limits, std::string_view load_frame) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Unavailable("cannot start {}: {}", kProgramName, std::strerror(errno));
  }
  const auto seconds = absl::ToInt64Seconds(std::max(limits.time, limits.load_time));
  const absl::StatusOr<pid_t> pid =
      SpawnPlan(program.fd(), ends[1])
          .Spawn({std::to_string(getpid()), std::to_string(limits.memory_mib),
                  std::to_string(seconds + 2)});
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  std::unique_ptr<RendererProcess> process(new RendererProcess(*pid, ends[0], limits));
  // A socket pair holds a template whole, or the renderer reads on soon; if neither, it is the
  // answer that will be missing.
  const SteadyTime start = std::chrono::steady_clock::now();
  SendFrame(process->socket_, load_frame,
            [&] { return WaitMilliseconds(limits.load_time - Since(start)); });
  return process;
}

RendererProcess::~RendererProcess() {
  Reap();
  close(socket_);
}

absl::Duration RendererProcess::UsedTime() const {
  timespec used{};
  if (clock_gettime(cpu_clock_, &used) != 0) return absl::ZeroDuration();
  return absl::DurationFromTimespec(used);
}

RendererEnd RendererProcess::Reap() {
  if (pid_ < 0) return RendererEnd::kGone;
  // A process whose end of the socket is closed has its exit code already; this cannot change it.
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return EndOf(status);
}

RendererProcess::Reply RendererProcess::Exchange(std::string_view frame, absl::Duration limit,
                                                 std::string_view doing) {
  const SteadyTime start = std::chrono::steady_clock::now();
  const absl::Duration used_before = UsedTime();
  const auto patience = [&] {
    const absl::Duration wall_left = limit * kWallFactor - Since(start);
    const absl::Duration processor_left = limit - (UsedTime() - used_before);
    return WaitMilliseconds(std::min(wall_left, processor_left));
  };
  std::string payload;
  FrameEnd transfer = frame.empty() ? FrameEnd::kDone : SendFrame(socket_, frame, patience);
  if (transfer == FrameEnd::kDone) {
    transfer = ReceivePayload(socket_, kMaxAnswerBytes, payload, patience);
  }
  if (transfer == FrameEnd::kDone) {
    absl::StatusOr<std::string> answer = ParseAnswer(payload);
    if (absl::IsInternal(answer.status())) {
      transfer = FrameEnd::kTooLong;
    } else {
      return {.result = std::move(answer), .end = std::nullopt};
    }
  }
  RendererEnd end = Reap();
  if (transfer == FrameEnd::kOverdue) end = RendererEnd::kTime;
  if (transfer == FrameEnd::kTooLong) end = RendererEnd::kCrash;
  return {.result = ErrorOf(end, limits_, limit, doing), .end = end};
}

RendererProcess::Reply RendererProcess::AwaitTemplate() {
  if (loaded_) return {.result = *loaded_, .end = std::nullopt};
  Reply reply = Exchange("", limits_.load_time, "parsing");
  if (!reply.end) loaded_ = reply.result;
  return reply;
}

RendererProcess::Reply RendererProcess::Render(std::string_view frame) {
  if (!loaded_) {
    Reply loading = AwaitTemplate();
    if (loading.end || !loading.result.ok()) {
      // The template was fine when the router started: not the request's fault.
      return {.result = absl::UnavailableError("the template renderer does not start"),
              .end = loading.end.value_or(RendererEnd::kGone)};
    }
  }
  return Exchange(frame, limits_.time, "rendering");
}

}  // namespace lockstep::router
