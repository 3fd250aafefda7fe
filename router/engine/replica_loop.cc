#include "router/engine/replica_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::router {

// The loop as its runner sees it, which may hold it for longer than there is a loop.
class ReplicaLoop::Turns final : public Strand, public std::enable_shared_from_this<Turns> {
 public:
  explicit Turns(ReplicaLoop& loop) : loop_(loop) {}

  // Before what is written to clients: it is workers that wait.
  bool urgent() const override { return true; }

  void RunStrand() override {
    // Read before the turn, so that what was posted before the end is seen.
    const State state = Read();
    if (state == State::kEnded) return;
    const bool ending = state == State::kEnding;
    loop_.TakeTurn();
    loop_.runner_->ScheduleAt(shared_from_this(), ending ? Time::max() : NextTurn());
    if (!ending) return;
    loop_.replica_.CheckIntegrity();
    End();
  }

  // Returns after the last turn.
  void TakeLastTurn() {
    {
      MutexLock lock(mutex_);
      state_ = State::kEnding;
    }
    loop_.runner_->Schedule(shared_from_this());
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
    const absl::Duration left = loop_.replica_.NextWakeup() - loop_.surroundings_.clock->Now();
    // A day is as good as any longer time and cannot overflow the system's clock.
    return std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(std::clamp(left, absl::ZeroDuration(), absl::Hours(24)));
  }

  ReplicaLoop& loop_;  // until the end
  Mutex mutex_;
  CondVar ended_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kGoing;
};

ReplicaLoop::ReplicaLoop(ReplicaConfig config, ReplicaParts parts, Surroundings surroundings)
    : surroundings_(std::move(surroundings)),
      worker_(std::move(parts.worker)),
      owner_(parts.owner),
      link_(std::move(parts.link)),
      runner_(std::move(parts.runner)),
      agreement_(std::move(parts.agreement)),
      inbox_(surroundings_.fleet->inbox(surroundings_.index)),
      replica_(std::move(config), std::move(parts.policy),
               {.clock = surroundings_.clock,
                .link = link_.get(),
                .metrics = surroundings_.metrics,
                .worker = worker_,
                .fleet = surroundings_.fleet,
                .index = surroundings_.index,
                .agreement = agreement_.get(),
                .owner = owner_}),
      turns_(std::make_shared<Turns>(*this)) {
  inbox_.SetOnPost([runner = runner_, turns = turns_] { runner->Schedule(turns); });
  runner_->Schedule(turns_);  // for what came before
  link_->Start(&inbox_);
}

ReplicaLoop::~ReplicaLoop() {
  link_->Stop();
  inbox_.CancelAll();
  inbox_.SetOnPost(nullptr);
  turns_->TakeLastTurn();
}

bool ReplicaLoop::stands_by() const {
  const ReplicaStatus status = board().status();
  return owner_ == WorkerOwner::kOther && status.live_requests == 0 &&
         status.worker_state != WorkerState::kReady &&
         status.worker_state != WorkerState::kDraining;
}

void ReplicaLoop::TakeTurn() {
  replica_.Process(inbox_.Take());
  if (replica_.TakeWorkerChange()) surroundings_.on_worker_change();
}

}  // namespace lockstep::router
