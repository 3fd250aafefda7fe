#include "cli/serve/processes/upgrader.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <utility>

#include "cli/common/http_get.h"
#include "cli/serve/processes/child.h"
#include "cli/top/metrics_text.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::cli {
namespace {

using Cause = RollOut::Cause;
using Event = RollOut::Event;

constexpr absl::Duration kUpgradeLookInterval = absl::Milliseconds(100);
constexpr absl::Duration kDescriptorRetryInterval = absl::Seconds(1);
constexpr absl::Duration kScrapeTimeout = absl::Seconds(1);
constexpr absl::Duration kCheckTimeout = absl::Seconds(5);
constexpr size_t kNumShownLogLines = 20;
constexpr size_t kMaxShownBytes = 1000;

// Empty if the program does not answer.
MetricsText MetricsOf(const Member& member) {
  const absl::StatusOr<Address> address = ParseAddress(member.admin_address());
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

std::string NameOf(const Member& worker) {
  return fmt::format("{} (process {})", worker.spec().name, worker.pid());
}

// "version 0.1.0, commit 1a2b3c4", as far as the worker answers.
std::string VersionOf(const Member& worker) {
  const MetricsText metrics = MetricsOf(worker);
  const auto label = [&](const std::string& name) {
    const auto values = metrics.LabelsWith("lockstep_worker_build_info", name, 1);
    return values.empty() ? "unknown" : values.front();
  };
  return fmt::format("version {}, commit {}", label("version"), label("commit"));
}

// Lets the program on disk check the flags that it would get. Waits for it, because its end comes
// within milliseconds.
absl::Status CheckProgram(std::vector<std::string> arguments) {
  arguments.emplace_back("--check-config");
  LOCKSTEP_ASSIGN_OR_RETURN(
      Captured captured, RunAndCapture(arguments, {.timeout = kCheckTimeout, .with_stderr = true}));
  absl::StripAsciiWhitespace(&captured.output);
  if (captured.wait_status == 0) return absl::OkStatus();
  return FailedPrecondition("{} --check-config ended with {}: {}", arguments[0],
                            DescribeEnd(captured.wait_status), captured.output);
}

std::string WaitText(Cause cause, const Member& worker) {
  if (cause == Cause::kRouterAway) return "waiting until the router answers";
  return "waiting until the router uses " + worker.spec().name;
}

std::string FailureText(Cause cause) {
  const std::string patience = absl::FormatDuration(RollOut::kJoinPatience);
  switch (cause) {
    case Cause::kMismatched:
      return "the router does not use it, because its weights or numerics differ from the other "
             "workers' (router.log says how). See \"To change the weights\" in docs/operations.md";
    case Cause::kRouterAway:
      return fmt::format("the router has not answered for {} (see router.log)", patience);
    default:
      return fmt::format("it listens, but the router has not used it for {}", patience);
  }
}

}  // namespace

Instant Upgrader::due(Instant now) const {
  return std::min(
      roll_out_ ? next_look_ : Instant::InfiniteFuture(),
      socket_->exhausted() ? now + kDescriptorRetryInterval : Instant::InfiniteFuture());
}

void Upgrader::Work(std::string_view refusal, Instant now) {
  if (socket_->Accept(roll_out_ ? "another upgrade runs" : refusal)) Start(now);
  if (!roll_out_ || now < next_look_) return;
  next_look_ = now + kUpgradeLookInterval;
  Do(roll_out_->Look(See(), now), now);
}

void Upgrader::Start(Instant now) {
  const std::vector<std::string>& arguments = members_.front().spec().arguments;
  if (const absl::Status status = CheckProgram(arguments); !status.ok()) {
    return Finish(kFailed, "no worker was touched: " + Message(status));
  }
  Say(fmt::format("the program {} takes the workers' flags", arguments[0]));
  roll_out_.emplace(members_.size() - 1, now);
  next_look_ = now;
}

std::vector<WorkerView> Upgrader::See() const {
  std::vector<WorkerView> views;
  for (size_t i = 0; i + 1 < members_.size(); ++i) {
    views.push_back({.running = members_[i].running(), .listening = members_[i].listening()});
  }
  if (!roll_out_->NeedsRouter(views)) return views;
  const MetricsText router = MetricsOf(members_.back());
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].router = ViewOf(router, members_[i].spec().address);
  }
  return views;
}

void Upgrader::Do(RollOut::Decision decision, Instant now) {
  Member& worker = members_[decision.worker];
  switch (decision.event) {
    case Event::kNone:
      return;
    case Event::kWaits:
      return Say(WaitText(decision.cause, worker));
    case Event::kEnd:
      return End(worker);
    case Event::kStart:
      Say(worker.spec().name + " starts with the new program");
      return worker.StartAt(now);
    case Event::kReplaced:
      Say(fmt::format("{} is ready: {}", NameOf(worker), VersionOf(worker)));
      if (roll_out_->over()) Finish(kDone, "every worker was replaced");
      return;
    case Event::kFailed:
      return Fail(decision.worker, FailureText(decision.cause));
  }
}

void Upgrader::End(Member& worker) {
  if (worker.listening()) {
    Say(NameOf(worker) + " drains");
    if (members_.size() == 2) {
      Say("it is the only one: until its successor is ready, new requests wait for at most the "
          "router's --no-worker-grace, and accepted requests for at most its --failover-wait");
    }
  } else if (worker.running()) {
    Say(NameOf(worker) + " still loads, so it is ended");
  }
  worker.StartAt(Instant::InfiniteFuture());
  worker.End();
}

bool Upgrader::OnEnded(const Member& worker, const Member::Ended& end, Instant now) {
  if (!roll_out_ || &worker == &members_.back()) return false;
  size_t index = 0;
  while (&members_[index] != &worker) ++index;
  next_look_ = now;
  const std::string how = "ended with " + DescribeEnd(end.wait_status);
  if (roll_out_->Ends(index)) {
    if (end.listened && end.wait_status != 0) Say(worker.spec().name + " " + how + " in its drain");
    return true;
  }
  if (roll_out_->OnEnded(index).event == Event::kFailed) {
    Say(fmt::format("the end of {}:", worker.spec().log_path));
    for (const auto& line : absl::StrSplit(worker.LastLogLines(kNumShownLogLines), '\n')) {
      Say(std::string(line));
    }
    Fail(index, "the new program " + how + ". It is started again and again");
  }
  return false;
}

void Upgrader::Stop() {
  if (roll_out_) Finish(kFailed, "`lockstep serve` was told to stop");
}

void Upgrader::Fail(size_t worker, std::string_view reason) {
  std::string text =
      fmt::format("{}: {}. {} of {} workers were replaced before. ", members_[worker].spec().name,
                  reason, roll_out_->num_replaced(), members_.size() - 1);
  if (const auto turn = roll_out_->turn(); turn && *turn != worker) {
    text += members_[*turn].spec().name + " gets the new program too. ";
  }
  Finish(kFailed, text + "No further worker was touched");
}

void Upgrader::Say(std::string_view text) {
  const std::string line = OneLine(text, kMaxShownBytes);
  console_.Line("upgrade: " + line);
  socket_->Say(line);
}

void Upgrader::Finish(std::string_view word, std::string_view text) {
  const std::string line = OneLine(text, kMaxShownBytes);
  console_.Line(fmt::format("upgrade: {}: {}", word, line));
  socket_->End(word, line);
  // If the worker in turn has ended just now, nothing else would start it again.
  const std::optional<size_t> turn = roll_out_ ? roll_out_->turn() : std::nullopt;
  if (turn && !members_[*turn].running()) members_[*turn].StartAt(Instant::InfinitePast());
  roll_out_.reset();
}

}  // namespace lockstep::cli
