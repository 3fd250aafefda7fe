#include "cli/serve/upgrade/roll_out.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep::cli {
namespace {

bool Serves(const WorkerView& worker) {
  return worker.listening && worker.router == RouterView::kReady;
}

RollOut::Cause CauseOf(RouterView view) {
  switch (view) {
    case RouterView::kUnknown:
      return RollOut::Cause::kRouterAway;
    case RouterView::kMismatched:
      return RollOut::Cause::kMismatched;
    default:
      return RollOut::Cause::kNotUsed;
  }
}

}  // namespace

RollOut::Decision RollOut::Enter(Phase phase, Instant now, Decision decision) {
  phase_ = phase;
  since_ = now;
  told_ = false;
  return decision;
}

RollOut::Decision RollOut::Look(const std::vector<WorkerView>& workers, Instant now) {
  if (phase_ == Phase::kOver) return {};
  if (phase_ == Phase::kChoosing) return Choose(workers, now);
  const WorkerView& current = workers[*turn_];
  if (phase_ == Phase::kStarting) {
    return current.listening ? Enter(Phase::kJoining, now, {}) : Decision();
  }
  if (phase_ == Phase::kEnding) {
    if (current.running) since_ = now;
    // Until the router has noticed the end, it still says what it said about the process before.
    const bool forgotten =
        current.router == RouterView::kUnknown || current.router == RouterView::kOther;
    if (current.running || (!forgotten && now - since_ < kJoinPatience)) return {};
    return Enter(Phase::kStarting, now, {Event::kStart, *turn_});
  }
  if (!Serves(current)) return AwaitUse(*turn_, current, now);
  replaced_[*turn_] = true;
  const size_t replaced = *std::exchange(turn_, std::nullopt);
  const bool is_last = num_replaced() == replaced_.size();
  return Enter(is_last ? Phase::kOver : Phase::kChoosing, now, {Event::kReplaced, replaced});
}

RollOut::Decision RollOut::Choose(const std::vector<WorkerView>& workers, Instant now) {
  std::optional<size_t> next;
  std::optional<size_t> unused;  // although it listens
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerView& worker = workers[i];
    if (Serves(worker)) {
      if (!replaced_[i] && !next) next = i;
      continue;
    }
    // A restart of the router, or a pause after failures, may be the reason. So give it some time.
    const bool may_come = worker.listening && worker.router != RouterView::kMismatched &&
                          (worker.router == RouterView::kUnknown || now - since_ < kJoinPatience);
    if (!replaced_[i] && !may_come) return End(i, now);
    if (!unused) unused = i;
  }
  if (unused) return AwaitUse(*unused, workers[*unused], now);
  return End(*next, now);
}

RollOut::Decision RollOut::End(size_t worker, Instant now) {
  turn_ = worker;
  return Enter(Phase::kEnding, now, {Event::kEnd, worker});
}

RollOut::Decision RollOut::AwaitUse(size_t worker, const WorkerView& view, Instant now) {
  const Cause cause = CauseOf(view.router);
  // What the router says about a successor is new. About another worker, it may be old.
  const bool refused = worker == turn_ && cause == Cause::kMismatched;
  if (refused || now - since_ >= kJoinPatience) {
    return Enter(Phase::kOver, now, {Event::kFailed, worker, cause});
  }
  return std::exchange(told_, true) ? Decision() : Decision{Event::kWaits, worker, cause};
}

bool RollOut::NeedsRouter(const std::vector<WorkerView>& workers) const {
  return phase_ == Phase::kChoosing || phase_ == Phase::kJoining ||
         (phase_ == Phase::kEnding && !workers[*turn_].running);
}

RollOut::Decision RollOut::OnEnded(size_t worker) {
  const bool is_successor =
      worker == turn_ && (phase_ == Phase::kStarting || phase_ == Phase::kJoining);
  // An old program starts again, as always.
  if (over() || (!is_successor && !replaced_[worker])) return {};
  phase_ = Phase::kOver;
  return {Event::kFailed, worker, Cause::kEnded};
}

size_t RollOut::num_replaced() const {
  return static_cast<size_t>(std::ranges::count(replaced_, true));
}

}  // namespace lockstep::cli
