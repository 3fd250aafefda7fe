#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "common/instant.h"

namespace lockstep::cli {

// What the router says about a worker. kUnknown: the router did not answer.
enum class RouterView { kUnknown, kReady, kMismatched, kOther };

struct WorkerView {
  bool running = false;
  bool listening = false;
  RouterView router = RouterView::kUnknown;
};

// The order in which workers get their new program, one after the other: end, start, until the
// router uses the successor. Workers that serve nothing go first. A worker that serves is ended
// only while the router uses all others. The first problem with a new program ends the roll-out,
// and the workers that are left keep their program. Pure; it knows no process and no text.
class RollOut {
 public:
  // How long the router may take to answer, and to use a worker that listens.
  static constexpr absl::Duration kJoinPatience = absl::Minutes(2);

  enum class Event {
    kNone,
    kWaits,     // for this worker, or for the router
    kEnd,       // ask this worker to drain, and start nothing in its place
    kStart,     // start this worker's successor
    kReplaced,  // the router uses the successor
    kFailed,    // by this worker, or by the router
  };
  // Of kWaits and kFailed.
  enum class Cause {
    kNone,
    kNotUsed,     // the router does not use the worker, although it listens
    kMismatched,  // the router refuses the worker
    kRouterAway,  // the router does not answer
    kEnded,       // the worker's new program ended
  };
  struct Decision {
    Event event = Event::kNone;
    size_t worker = 0;
    Cause cause = Cause::kNone;

    friend bool operator==(const Decision&, const Decision&) = default;
  };

  // At least one worker.
  RollOut(size_t num_workers, Instant now) : replaced_(num_workers, false), since_(now) {}

  // What to do now. Call it again and again until the roll-out is over.
  Decision Look(const std::vector<WorkerView>& workers, Instant now);
  // True if the next Look depends on what the router says.
  bool NeedsRouter(const std::vector<WorkerView>& workers) const;
  // A worker's process ended.
  Decision OnEnded(size_t worker);

  // The worker that is replaced now. Stays when the roll-out fails.
  std::optional<size_t> turn() const { return turn_; }
  // True if the roll-out ends this worker, and starts its successor later.
  bool Ends(size_t worker) const { return phase_ == Phase::kEnding && worker == turn_; }
  size_t num_replaced() const;
  bool over() const { return phase_ == Phase::kOver; }

 private:
  enum class Phase { kChoosing, kEnding, kStarting, kJoining, kOver };

  Decision Enter(Phase phase, Instant now, Decision decision);
  Decision Choose(const std::vector<WorkerView>& workers, Instant now);
  Decision End(size_t worker, Instant now);
  Decision AwaitUse(size_t worker, const WorkerView& view, Instant now);

  std::vector<bool> replaced_;  // by worker
  std::optional<size_t> turn_;  // set except while kChoosing, or if that failed
  Phase phase_ = Phase::kChoosing;
  Instant since_;      // start of the wait for the router
  bool told_ = false;  // that it waits for the router, in this phase
};

}  // namespace lockstep::cli
