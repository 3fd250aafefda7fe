#include "cli/serve/processes/upgrader.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include "cli/common/http_get.h"
#include "cli/serve/processes/child.h"
#include "cli/top/metrics_text.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kUpgradeLookInterval = absl::Milliseconds(100);
constexpr absl::Duration kScrapeTimeout = absl::Seconds(1);
constexpr absl::Duration kCheckTimeout = absl::Seconds(10);
constexpr size_t kNumShownLogLines = 20;
constexpr size_t kMaxShownBytes = 1000;

// Empty if the program does not answer.
MetricsText MetricsOf(const std::string& admin_address) {
  const absl::StatusOr<Address> address = ParseAddress(admin_address);
  if (!address.ok()) return {};
  const absl::StatusOr<HttpReply> reply = HttpGet(*address, "/metrics", kScrapeTimeout);
  return reply.ok() && reply->status == 200 ? MetricsText::Parse(reply->body) : MetricsText();
}

RouterView ViewOf(const MetricsText& router, const std::string& worker) {
  const auto is = [&](const std::string& state) {
    return router.Sum("lockstep_router_worker_state", {{"worker", worker}, {"state", state}});
  };
  if (!is("ready")) return RouterView::kUnknown;
  if (is("ready") == 1) return RouterView::kReady;
  return is("mismatched") == 1 ? RouterView::kMismatched : RouterView::kOther;
}

// "worker 0 (process 12, version 0.1.0, commit 1a2b3c4)", as far as the worker answers.
std::string NameOf(const Member& worker) {
  const MetricsText metrics = MetricsOf(worker.admin_address());
  const auto label = [&](const std::string& name) {
    const auto values = metrics.LabelsWith("lockstep_worker_build_info", name, 1);
    return values.empty() ? "unknown" : values.front();
  };
  return fmt::format("{} (process {}, version {}, commit {})", worker.spec().name, worker.pid(),
                     label("version"), label("commit"));
}

// Runs the program on disk, first to learn its version, then to check the flags. Waits for it,
// because its end comes within milliseconds. Returns "lockstep-worker 0.1.0 (commit ...)".
absl::StatusOr<std::string> CheckProgram(const std::vector<std::string>& arguments) {
  std::string version;
  for (const char* const flag : {"--version", "--check-config"}) {
    std::vector<std::string> check = arguments;
    check.emplace_back(flag);
    LOCKSTEP_ASSIGN_OR_RETURN(
        Captured captured, RunAndCapture(check, {.timeout = kCheckTimeout, .with_stderr = true}));
    absl::StripAsciiWhitespace(&captured.output);
    if (captured.wait_status != 0) {
      return FailedPrecondition("{} {} ended with {}: {}", arguments[0], flag,
                                DescribeEnd(captured.wait_status), captured.output);
    }
    if (version.empty()) version = captured.output;
  }
  return version;
}

}  // namespace

void Upgrader::Work(std::string_view refusal, Instant now) {
  for (const uint64_t client : socket_.Work()) {
    if (!refusal.empty() || roll_out_) {
      socket_.End(client, kFailed, roll_out_ ? "another upgrade runs" : refusal);
      continue;
    }
    Start(client);
    next_look_ = now;
  }
  if (!roll_out_ || now < next_look_) return;
  next_look_ = now + kUpgradeLookInterval;
  Do(roll_out_->Look(See(), now), now);
}

void Upgrader::Start(uint64_t client) {
  client_ = client;
  const absl::StatusOr<std::string> version = CheckProgram(members_.front().spec().arguments);
  if (!version.ok()) {
    return Finish(kFailed, "no worker was touched: " + Message(version.status()));
  }
  Say(fmt::format("the new program is {}", *version));
  roll_out_.emplace(members_.size() - 1);
}

std::vector<WorkerView> Upgrader::See() const {
  const MetricsText router =
      roll_out_->asks_router() ? MetricsOf(members_.back().admin_address()) : MetricsText();
  std::vector<WorkerView> views;
  for (size_t i = 0; i + 1 < members_.size(); ++i) {
    views.push_back({.running = members_[i].running(),
                     .listening = members_[i].listening(),
                     .router = ViewOf(router, members_[i].spec().address)});
  }
  return views;
}

void Upgrader::Do(RollOut::Decision decision, Instant now) {
  Member& worker = members_[decision.worker];
  switch (decision.event) {
    case RollOut::Event::kNone:
      return;
    case RollOut::Event::kWaits:
      return Say(fmt::format("waiting until the router uses {}", worker.spec().name));
    case RollOut::Event::kEnd:
      Say(NameOf(worker) + " drains");
      if (members_.size() == 2) {
        Say("it is the only one: requests wait for its successor, at most --failover-wait");
      }
      return worker.End();
    case RollOut::Event::kStart:
      Say(worker.spec().name + " starts with the new program");
      return worker.StartAt(now);
    case RollOut::Event::kReplaced:
      return Say(NameOf(worker) + " is ready");
    case RollOut::Event::kDone:
      Say(NameOf(worker) + " is ready");
      return Finish(kDone, "every worker was replaced");
    case RollOut::Event::kMismatched:
      return Fail(worker,
                  "the router does not use it, because its weights or numerics differ from the "
                  "other workers' (router.log says how). See \"To change the weights\" in "
                  "docs/operations.md");
    case RollOut::Event::kNotUsed:
      return Fail(worker, fmt::format("it listens, but the router does not use it for {}",
                                      absl::FormatDuration(RollOut::kJoinPatience)));
    case RollOut::Event::kEndedEarly:
      Say(fmt::format("the end of {}:", worker.spec().log_path));
      for (const auto& line : absl::StrSplit(worker.LastLogLines(kNumShownLogLines), '\n')) {
        Say(std::string(line));
      }
      return Fail(worker, "it ended before it was ready. It is started again and again");
  }
}

bool Upgrader::OnEnded(const Member& worker, const Member::Ended& end, Instant now) {
  if (!roll_out_ || &worker == &members_.back()) return false;
  size_t index = 0;
  while (&members_[index] != &worker) ++index;
  next_look_ = now;
  if (roll_out_->Ends(index)) return true;
  Do(roll_out_->OnEnded(index, end.listened), now);
  return false;
}

void Upgrader::Stop() {
  if (roll_out_) Finish(kFailed, "`lockstep serve` was told to stop");
}

void Upgrader::Fail(const Member& worker, std::string_view reason) {
  // The worker in turn may have ended just now. Its successor would never start.
  for (Member& member : members_) {
    if (!member.running() && member.due() == Instant::InfiniteFuture()) {
      member.StartAt(Instant::InfinitePast());
    }
  }
  Finish(kFailed, fmt::format("{}: {}. No further worker was touched", worker.spec().name, reason));
}

void Upgrader::Say(std::string_view text) {
  const std::string line = OneLine(text, kMaxShownBytes);
  console_.Line("upgrade: " + line);
  socket_.Say(client_, line);
}

void Upgrader::Finish(std::string_view word, std::string_view text) {
  const std::string line = OneLine(text, kMaxShownBytes);
  console_.Line(fmt::format("upgrade: {}: {}", word, line));
  socket_.End(client_, word, line);
  roll_out_.reset();
}

}  // namespace lockstep::cli
