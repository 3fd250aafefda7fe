#include "cli/serve/processes/supervisor.h"

#include <absl/time/clock.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cli/common/http_get.h"
#include "cli/serve/processes/child.h"
#include "cli/serve/processes/screen.h"
#include "common/check.h"
#include "common/instant.h"
#include "common/runtime/clock.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

// How often logs and readiness are checked during the start.
constexpr absl::Duration kLookInterval = absl::Milliseconds(100);
constexpr absl::Duration kHealthTimeout = absl::Seconds(1);
constexpr absl::Duration kStartRetryInterval = absl::Seconds(30);
constexpr size_t kNumLogLines = 20;

bool IsReady(const std::string& admin_address) {
  const absl::StatusOr<Address> address = ParseAddress(admin_address);
  if (!address.ok()) return false;
  const absl::StatusOr<HttpReply> reply = HttpGet(*address, "/healthz", kHealthTimeout);
  return reply.ok() && reply->status == 200;
}

}  // namespace

Supervisor::Supervisor(Fleet fleet, std::unique_ptr<ControlSocket> control, Console* console,
                       OnReady on_ready)
    : on_ready_(std::move(on_ready)),
      console_(console),
      upgrader_(std::move(control), &members_, console) {
  for (MemberSpec& worker : fleet.workers) members_.emplace_back(std::move(worker), fleet.limits);
  members_.emplace_back(std::move(fleet.router), fleet.limits);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals, number);
  // Under nohup, SIGHUP is ignored. A signalfd would report it nevertheless, so leave it out.
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler == SIG_IGN) sigdelset(&signals, SIGHUP);
  sigprocmask(SIG_BLOCK, &signals, &previous_mask_);
  signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  LOCKSTEP_CHECK(signal_fd_ >= 0, "signalfd failed with errno {}", errno);
}

Supervisor::~Supervisor() {
  for (const Member& member : members_) member.Kill();  // all of them before waiting for the first
  members_.clear();
  close(signal_fd_);
  sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

absl::Status Supervisor::Run() {
  for (Member& member : members_) {
    if (&member != &router()) member.StartAt(Instant::InfinitePast());
  }
  for (;;) {
    const Instant now = MonotonicNow();
    LOCKSTEP_RETURN_IF_ERROR(StartDue(now));
    WaitForEvents(now);
    LOCKSTEP_RETURN_IF_ERROR(TakeSignals());
    ReadOutputs(MonotonicNow());
    LOCKSTEP_RETURN_IF_ERROR(ReapAll(MonotonicNow()));
    WorkOnUpgrade();
    if (phase_ == Phase::kStarting) {
      ShowProgress();
      LookWhetherReady();
    }
    if (phase_ == Phase::kDrainingRouter && !router().running()) {
      phase_ = Phase::kDrainingWorkers;
      EndWorkers();
    }
    if (phase_ == Phase::kDrainingWorkers && !AnyRuns()) return absl::OkStatus();
  }
}

absl::Status Supervisor::StartDue(Instant now) {
  for (Member& member : members_) {
    if (member.running() || member.due() > now) continue;
    const absl::Status status = Annotate(member.Start(now), member.spec().name);
    if (status.ok()) continue;
    if (phase_ == Phase::kStarting) return status;
    // The other programs still serve, so go on. The cause may pass, for example a lack of memory.
    console_->Line(console_->paint().Red(Message(status)) + "; it is tried again in 30s");
    member.StartAt(now + kStartRetryInterval);
  }
  return absl::OkStatus();
}

void Supervisor::WaitForEvents(Instant now) {
  std::vector<pollfd> waiting = {{signal_fd_, POLLIN, 0}, {upgrader_.descriptor(), POLLIN, 0}};
  Instant next = phase_ == Phase::kStarting ? now + kLookInterval : upgrader_.due(now);
  for (const Member& member : members_) {
    if (member.stdout_fd() >= 0) waiting.push_back({member.stdout_fd(), POLLIN, 0});
    next = std::min(next, member.due());
  }
  int timeout_ms = -1;
  if (next != Instant::InfiniteFuture()) {
    const absl::Duration wait = std::max(next - now, absl::ZeroDuration());
    timeout_ms =
        static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(wait, absl::Milliseconds(1))));
  }
  poll(waiting.data(), waiting.size(), timeout_ms);
}

absl::Status Supervisor::TakeSignals() {
  signalfd_siginfo info;
  while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == SIGCHLD) continue;
    if (draining()) {
      console_->Line("ending everything at once");
      return absl::CancelledError("a second signal ended the drain");
    }
    Drain();
  }
  return absl::OkStatus();
}

void Supervisor::Drain() {
  // Until the router has drained, its requests need the workers. So these still start again.
  upgrader_.Stop();
  phase_ = Phase::kDrainingRouter;
  router().StartAt(Instant::InfiniteFuture());
  if (!router().running()) return;
  console_->Line("stopping: running requests finish first; a second Ctrl-C ends them");
  router().End();
}

void Supervisor::EndWorkers() {
  for (Member& member : members_) {
    member.StartAt(Instant::InfiniteFuture());
    member.End();
  }
}

bool Supervisor::AnyRuns() const {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.running(); });
}

void Supervisor::WorkOnUpgrade() {
  std::string_view refusal;
  if (phase_ == Phase::kStarting) refusal = "`lockstep serve` still starts its programs";
  if (draining()) refusal = "`lockstep serve` stops";
  upgrader_.Work(refusal, MonotonicNow());
}

void Supervisor::ReadOutputs(Instant now) {
  for (Member& member : members_) {
    if (member.stdout_fd() < 0) continue;
    if (member.ReadOutput()) OnListening(member, now);
  }
}

void Supervisor::OnListening(Member& member, Instant now) {
  if (phase_ == Phase::kServing) {
    console_->Line(fmt::format("{} runs again (process {})", member.spec().name, member.pid()));
  }
  const bool router_waits =
      !draining() && !router().running() && router().due() == Instant::InfiniteFuture();
  if (&member != &router() && router_waits) router().StartAt(now);
}

absl::Status Supervisor::ReapAll(Instant now) {
  for (Member& member : members_) {
    const std::optional<Member::Ended> end = member.Reap(now);
    if (!end || (draining() && &member == &router())) continue;
    if (phase_ == Phase::kDrainingWorkers) continue;
    LOCKSTEP_RETURN_IF_ERROR(OnEnded(member, *end, now));
  }
  return absl::OkStatus();
}

absl::Status Supervisor::OnEnded(Member& member, const Member::Ended& end, Instant now) {
  if (upgrader_.OnEnded(member, end, now)) return absl::OkStatus();
  const std::string& name = member.spec().name;
  if (end.verdict.gives_up && draining()) return absl::OkStatus();
  if (end.verdict.gives_up) {
    return Unavailable("{} ended with {} and was never ready. The end of {}:\n{}", name,
                       DescribeEnd(end.wait_status), member.spec().log_path,
                       member.LastLogLines(kNumLogLines));
  }
  console_->Line(
      console_->paint().Red(fmt::format("{} ended with {}", name, DescribeEnd(end.wait_status))) +
      fmt::format("; it starts again in {} (log {})", absl::FormatDuration(end.verdict.wait),
                  member.spec().log_path));
  // Its last line says why it did not start. Most often a flag or the model is wrong.
  if (!member.was_ready() && WIFEXITED(end.wait_status)) console_->Line(member.LastLogLines(1));
  member.StartAt(now + end.verdict.wait);
  return absl::OkStatus();
}

void Supervisor::ShowProgress() {
  std::vector<std::optional<LoadingProgress>> loading;
  for (Member& member : members_) {
    if (&member == &router() || member.listening()) continue;
    member.ReadLog();
    loading.push_back(member.progress());
  }
  if (!loading.empty()) console_->Progress(ProgressText(loading));
}

void Supervisor::LookWhetherReady() {
  const bool all_listen = std::all_of(members_.begin(), members_.end(),
                                      [](const Member& member) { return member.listening(); });
  if (!all_listen || !IsReady(router().admin_address())) return;
  phase_ = Phase::kServing;
  on_ready_(router());
}

}  // namespace lockstep::cli
