#include "common/caged/caged_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/caged/frame_io.h"
#include "common/status.h"

namespace lockstep {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

absl::Duration Since(SteadyTime start) {
  return absl::FromChrono(std::chrono::steady_clock::now() - start);
}

// For poll: rounded up, and 0 when nothing is left.
int WaitMilliseconds(absl::Duration left) {
  if (left <= absl::ZeroDuration()) return 0;
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

CagedEnd EndOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal_number = WTERMSIG(wait_status);
    if (signal_number == SIGPROF) return CagedEnd::kTime;
    // The kernel was short of memory, or an operator sent the signal. After our own SIGKILL,
    // Exchange knows a better reason.
    const bool foreign = signal_number == SIGKILL || signal_number == SIGTERM;
    return foreign ? CagedEnd::kGone : CagedEnd::kCrash;
  }
  switch (static_cast<CagedExit>(WEXITSTATUS(wait_status))) {
    case CagedExit::kRetired:
    case CagedExit::kMisused:
    case CagedExit::kNoLibrary:
    case CagedExit::kNoCage:
      return CagedEnd::kGone;
    case CagedExit::kMemory:
      return CagedEnd::kMemory;
    default:
      return CagedEnd::kCrash;
  }
}

}  // namespace

CagedProcess::CagedProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {
  clock_getcpuclockid(pid, &cpu_clock_);
}

absl::StatusOr<std::unique_ptr<CagedProcess>> CagedProcess::Start(const PythonProgram& program,
                                                                  const CagedArguments& arguments) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Unavailable("cannot start {}: {}", program.purpose(), std::strerror(errno));
  }
  const absl::StatusOr<pid_t> pid = program.Spawn(ends[1], arguments);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  return std::unique_ptr<CagedProcess>(new CagedProcess(*pid, ends[0]));
}

CagedProcess::~CagedProcess() {
  Reap();
  close(socket_);
}

void CagedProcess::Send(std::string_view frame, absl::Duration limit) {
  const SteadyTime start = std::chrono::steady_clock::now();
  SendFrame(socket_, frame, [&] { return WaitMilliseconds(limit - Since(start)); });
}

absl::Duration CagedProcess::UsedTime() const {
  timespec used{};
  if (clock_gettime(cpu_clock_, &used) != 0) return absl::ZeroDuration();
  return absl::DurationFromTimespec(used);
}

CagedEnd CagedProcess::Reap() {
  if (pid_ < 0) return CagedEnd::kGone;
  // If the process closed its end of the socket, it already has its exit code. The signal cannot
  // change that.
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // An exit before the first answer is not the fault of a job.
  const CagedEnd end = EndOf(status);
  const bool failed = WIFEXITED(status) && end == CagedEnd::kCrash && !has_answered_;
  return failed ? CagedEnd::kGone : end;
}

CagedProcess::Reply CagedProcess::Exchange(std::string_view frame, absl::Duration limit,
                                           size_t max_bytes) {
  const SteadyTime start = std::chrono::steady_clock::now();
  const absl::Duration used_before = UsedTime();
  const auto processor_left = [&] { return limit - (UsedTime() - used_before); };
  const auto patience = [&] {
    const absl::Duration wall_left = limit * kWallFactor - Since(start);
    return WaitMilliseconds(std::min(wall_left, processor_left()));
  };
  Reply reply;
  FrameEnd transfer = frame.empty() ? FrameEnd::kDone : SendFrame(socket_, frame, patience);
  if (transfer == FrameEnd::kDone) {
    transfer = ReceivePayload(socket_, max_bytes, reply.payload, patience);
  }
  if (transfer == FrameEnd::kDone) {
    has_answered_ = true;
    return reply;
  }
  reply.stalled = transfer == FrameEnd::kOverdue && processor_left() > absl::ZeroDuration();
  reply.end = Reap();
  if (transfer == FrameEnd::kOverdue) reply.end = CagedEnd::kTime;
  if (transfer == FrameEnd::kTooLong) reply.end = CagedEnd::kCrash;
  return reply;
}

CagedEnd CagedProcess::Distrust() {
  Reap();
  return CagedEnd::kCrash;
}

std::string WhyGone(int exit_code, const PythonProgram& program, std::string_view library) {
  switch (static_cast<CagedExit>(exit_code)) {
    case CagedExit::kNoLibrary:
      return fmt::format("{} has no {}", program.python(), library);
    case CagedExit::kNoCage:
      return fmt::format("{} could not start: this system refuses its limits, or seccomp filters",
                         program.purpose());
    case CagedExit::kRetired:
      return fmt::format("{} ended", program.purpose());
    default:
      return fmt::format("{} cannot run {}: it needs Python 3.9 or newer", program.python(),
                         program.purpose());
  }
}

}  // namespace lockstep
