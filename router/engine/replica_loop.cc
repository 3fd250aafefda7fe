#include "router/engine/replica_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::router {

// The runner may hold the strand longer than the loop exists.
class ReplicaLoop::LoopStrand final : public Strand,
                                      public std::enable_shared_from_this<LoopStrand> {
 public:
  explicit LoopStrand(ReplicaLoop& loop) : loop_(loop) {}

  // Runs before strands that write to clients, because a worker waits for it.
  bool urgent() const override { return true; }

  void RunStrand() override {
    // Read before the turn, so that the last turn sees everything that was posted before the end.
    const State state = Read();
    if (state == State::kEnded) return;
    const bool ending = state == State::kEnding;
    loop_.TakeTurn();
    loop_.parts_.runner->ScheduleAt(shared_from_this(), ending ? Time::max() : NextTurn());
    if (!ending) return;
    loop_.replica_.CheckIntegrity();
    End();
  }

  // Returns when the last turn has ended.
  void TakeLastTurn() {
    {
      MutexLock lock(mutex_);
      state_ = State::kEnding;
    }
    loop_.parts_.runner->Schedule(shared_from_this());
    MutexLock lock(mutex_);
    while (state_ != State::kEnded) ended_.Wait(mutex_);
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { kGoing, kEnding, kEnded };

  State Read() {
    MutexLock lock(mutex_);
    return state_;
  }

  void End() {
    MutexLock lock(mutex_);
    state_ = State::kEnded;
    ended_.NotifyAll();
  }

  Time NextTurn() const {
    const absl::Duration left = loop_.replica_.NextWakeup() - loop_.clock_.Now();
    // The bound of a day keeps the sum from overflowing the system's clock.
    return std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(std::clamp(left, absl::ZeroDuration(), absl::Hours(24)));
  }

  ReplicaLoop& loop_;  // not used after the end
  Mutex mutex_;
  CondVar ended_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kGoing;
};

namespace {

ReplicaPlace CompletePlace(ReplicaPlace place, const ReplicaParts& parts) {
  place.link = parts.link.get();
  place.worker = parts.worker;
  place.agreement = parts.agreement.get();
  place.owner = parts.owner;
  return place;
}

}  // namespace

ReplicaLoop::ReplicaLoop(ReplicaConfig config, ReplicaParts parts, ReplicaPlace place,
                         std::function<void()> on_worker_change)
    : parts_(std::move(parts)),
      on_worker_change_(std::move(on_worker_change)),
      clock_(*place.clock),
      inbox_(place.fleet->inbox(place.index)),
      replica_(std::move(config), std::move(parts_.policy), CompletePlace(place, parts_)),
      strand_(std::make_shared<LoopStrand>(*this)) {
  inbox_.SetOnPost([runner = parts_.runner, strand = strand_] { runner->Schedule(strand); });
  parts_.runner->Schedule(strand_);  // for messages that came before
  parts_.link->Start(&inbox_);
}

ReplicaLoop::~ReplicaLoop() {
  parts_.link->Stop();
  inbox_.CancelAll();
  inbox_.SetOnPost(nullptr);
  strand_->TakeLastTurn();
}

bool ReplicaLoop::stands_by() const {
  const ReplicaStatus status = board().status();
  return parts_.owner == WorkerOwner::kOther && status.live_requests == 0 &&
         status.worker_state != WorkerState::kReady &&
         status.worker_state != WorkerState::kDraining;
}

void ReplicaLoop::TakeTurn() {
  replica_.Process(inbox_.Take());
  if (replica_.TakeWorkerChange()) on_worker_change_();
}

}  // namespace lockstep::router
