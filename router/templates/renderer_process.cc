#include "router/templates/renderer_process.h"

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

#include "common/status.h"
#include "common/violations.h"
#include "router/templates/frame_io.h"
#include "router/templates/renderer_frames.h"

namespace lockstep::router {
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

RendererEnd EndOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal_number = WTERMSIG(wait_status);
    if (signal_number == SIGPROF) return RendererEnd::kTime;
    // The kernel was short of memory, or an operator sent the signal. After our own SIGKILL,
    // Exchange knows a better reason.
    const bool foreign = signal_number == SIGKILL || signal_number == SIGTERM;
    return foreign ? RendererEnd::kGone : RendererEnd::kCrash;
  }
  switch (static_cast<RendererExit>(WEXITSTATUS(wait_status))) {
    case RendererExit::kRetired:
    case RendererExit::kMisused:
    case RendererExit::kNoJinja:
    case RendererExit::kNoCage:
      return RendererEnd::kGone;
    case RendererExit::kMemory:
      return RendererEnd::kMemory;
    default:
      return RendererEnd::kCrash;
  }
}

// The error for a renderer that ended without a fault of the template.
std::string WhyGone(int exit_code, const std::string& python) {
  switch (static_cast<RendererExit>(exit_code)) {
    case RendererExit::kNoJinja:
      return fmt::format(
          "{} has no Jinja2, which chat templates need: install python3-jinja2, or name another "
          "Python with --template-python",
          python);
    case RendererExit::kNoCage:
      return "the template renderer could not start: this system refuses its limits, or seccomp "
             "filters";
    case RendererExit::kRetired:
      return "the template renderer ended";
    default:
      return fmt::format("{} cannot run the template renderer: it needs Python 3.9 or newer",
                         python);
  }
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

RendererProcess::RendererProcess(pid_t pid, int socket, std::string python,
                                 const RendererLimits& limits)
    : pid_(pid), socket_(socket), python_(std::move(python)), limits_(limits) {
  clock_getcpuclockid(pid, &cpu_clock_);
}

absl::StatusOr<std::unique_ptr<RendererProcess>> RendererProcess::Start(
    const RendererProgram& program, const RendererLimits& limits, std::string_view load_frame) {
  std::array<int, 2> ends;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Unavailable("cannot start the template renderer: {}", std::strerror(errno));
  }
  const auto seconds = absl::ToInt64Seconds(std::max(limits.time, limits.load_time));
  const absl::StatusOr<pid_t> pid = program.Spawn(
      ends[1],
      {.memory_mib = limits.memory_mib, .cpu_seconds = static_cast<uint32_t>(seconds) + 2});
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  std::unique_ptr<RendererProcess> process(
      new RendererProcess(*pid, ends[0], program.python(), limits));
  // Errors are ignored here, because the answer will be missing then too. A frame usually fits the
  // socket's buffer.
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
  // If the process closed its end of the socket, it already has its exit code. The signal cannot
  // change that.
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // An exit before the template was loaded is not the template's fault.
  const RendererEnd end = EndOf(status);
  const bool failed = WIFEXITED(status) && end == RendererEnd::kCrash && !loaded_.has_value();
  return failed ? RendererEnd::kGone : end;
}

absl::Status RendererProcess::ErrorOf(RendererEnd end, absl::Duration limit,
                                      std::string_view doing) const {
  switch (end) {
    case RendererEnd::kTime:
      return InvalidArgument("chat template: {} takes more than {}", doing,
                             absl::FormatDuration(limit));
    case RendererEnd::kMemory:
      return InvalidArgument("chat template: {} needs more than {} MiB", doing, limits_.memory_mib);
    case RendererEnd::kCrash:
      return InvalidArgument("chat template: {} made the template renderer crash", doing);
    case RendererEnd::kGone:
      break;
  }
  return absl::UnavailableError(WhyGone(exit_code_, python_));
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
  return {.result = ErrorOf(end, limit, doing), .end = end};
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
      // The template was fine when the router started, so the request is not at fault.
      return {.result = absl::UnavailableError("the template renderer does not start"),
              .end = loading.end.value_or(RendererEnd::kGone)};
    }
  }
  return Exchange(frame, limits_.time, "rendering");
}

}  // namespace lockstep::router
