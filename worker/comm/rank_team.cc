#include "worker/comm/rank_team.h"

#include "common/check.h"
#include "common/runtime/spin.h"
#include "common/runtime/wait_until.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();
// A process that was suspended finds its time over when it continues. Its other threads then need a
// moment.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

RankTeam::RankTeam(int num_ranks, bool takes_turns)
    : takes_turns_(takes_turns), members_(static_cast<size_t>(num_ranks)) {
  for (int rank = 1; rank < num_ranks; ++rank) {
    threads_.emplace_back("rank", [this, rank] { ServeRank(rank); });
  }
}

RankTeam::~RankTeam() {
  stopping_.store(true);
  Announce();
}

void RankTeam::Run(absl::FunctionRef<void(int)> body, std::chrono::nanoseconds hung_after) {
  body_ = &body;
  const uint64_t run = num_runs_.load(std::memory_order_relaxed) + 1;
  num_runs_.store(run);
  Announce();
  CallBody(0);
  for (size_t rank = 1; rank < members_.size(); ++rank) {
    const auto is_done = [this, rank, run] { return members_[rank].num_done.load() == run; };
    LOCKSTEP_CHECK(Await(is_done, hung_after) || Await(is_done, kGrace),
                   "rank {} has not come back within {} ms", rank,
                   std::chrono::duration_cast<std::chrono::milliseconds>(hung_after).count());
  }
}

void RankTeam::CallBody(int rank) {
  if (!takes_turns_) return (*body_)(rank);
  MutexLock lock(turn_);
  (*body_)(rank);
}

void RankTeam::ServeRank(int rank) {
  Member& self = members_[static_cast<size_t>(rank)];
  for (uint64_t run = 1;; ++run) {
    Await([this, run] { return num_runs_.load() >= run || stopping_.load(); }, kForever);
    if (num_runs_.load() < run) return;
    CallBody(rank);
    self.num_done.store(run);
    Announce();
  }
}

// Returns false after the time has passed. The data that `done` reads must change before Announce.
template <typename Condition>
bool RankTeam::Await(Condition done, std::chrono::nanoseconds patience) {
  if (SpinBriefly(done)) return true;
  const auto begin = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  num_sleeping_.fetch_add(1);
  bool is_done = done();
  while (!is_done) {
    if (patience == kForever) {
      changed_.Wait(mutex_);
    } else if (!WaitUntil(mutex_, changed_, begin + patience)) {
      break;
    }
    is_done = done();
  }
  num_sleeping_.fetch_sub(1);
  return is_done;
}

// Sequentially consistent, like the waiting thread's increment of num_sleeping_ and its next check
// of the condition. So either this thread sees that the other one sleeps, or the other one sees the
// change.
void RankTeam::Announce() {
  if (num_sleeping_.load() == 0) return;
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

}  // namespace lockstep::worker
