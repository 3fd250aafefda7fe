#pragma once

#include <absl/functional/function_ref.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/named_thread.h"

namespace lockstep::worker {

// A thread for each rank of a tensor-parallel group on GPUs. Needed because CUDA keeps a current
// device for each thread, and because launches of one rank must not wait for another rank's. Rank 0
// runs on the calling thread. The threads spin for a moment between two calls and then sleep.
class RankTeam {
 public:
  // num_ranks: at least 1. takes_turns: Run calls the bodies one after the other. Ranks that share
  // a device need this, because they also share CUDA's settings of the device, such as sizes set
  // before a launch.
  explicit RankTeam(int num_ranks, bool takes_turns = false);
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;
  ~RankTeam();

  int num_ranks() const { return static_cast<int>(members_.size()); }

  // Calls body(rank) for every rank and returns when all have returned. The ranks run at the same
  // time unless they take turns. A rank always has the same thread, except rank 0. Only one thread
  // at a time may call Run. The process dies if a rank needs `hung_after` longer than rank 0,
  // because a group without one of its ranks cannot continue.
  void Run(absl::FunctionRef<void(int)> body, std::chrono::nanoseconds hung_after);

 private:
  struct alignas(64) Member {
    std::atomic<uint64_t> num_done{0};  // runs
  };

  void ServeRank(int rank);
  void CallBody(int rank);
  template <typename Condition>
  bool Await(Condition done, std::chrono::nanoseconds patience);
  void Announce();

  const bool takes_turns_;
  Mutex turn_;
  // Written before num_runs_, and read only by the ranks of that run.
  const absl::FunctionRef<void(int)>* body_ = nullptr;
  std::atomic<uint64_t> num_runs_{0};
  std::atomic<bool> stopping_{false};
  std::vector<Member> members_;
  std::atomic<int> num_sleeping_{0};
  Mutex mutex_;
  CondVar changed_;
  std::vector<NamedThread> threads_;  // of the ranks from 1 on
};

}  // namespace lockstep::worker
