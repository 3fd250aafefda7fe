#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/runtime/mutex.h"
#include "worker/comm/all_gather.h"

namespace lockstep::worker {

// The exchange of a tensor-parallel group with ranks in threads of this process. It moves bytes and
// adds nothing up, so it cannot change a result. Different ranks may call it at the same time.
class ThreadGroup {
 public:
  // If a rank waits longer than `hung_after` for another rank, the process dies: a group without
  // one of its ranks cannot continue, and the router serves its requests elsewhere.
  ThreadGroup(int degree, std::chrono::nanoseconds hung_after);
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Every rank must call this with equal sizes, equally often and in the same order. Writes the
  // columns of all ranks to `output`.
  //
  // The other ranks may read `columns` until this rank's next call has returned. So two buffers
  // must take turns: dies if two calls in a row have the same `columns`.
  void AllGather(int rank, const AllGatherParams& params);

 private:
  // The data that a rank shows to the others. A call and the next one use different posts. A rank
  // writes a post again only after the call between, and by then all ranks have read it.
  struct alignas(64) Member {
    AllGatherParams posts[2];
    std::atomic<uint64_t> num_posted{0};  // calls that the rank has begun
  };

  void Post(int rank, const AllGatherParams& params);
  // Waits for the post of `peer` that belongs to call number `call` of `rank`.
  const AllGatherParams& Await(int rank, int peer, uint64_t call);

  const int degree_;
  const std::chrono::nanoseconds hung_after_;
  std::vector<Member> members_;
  std::atomic<int> num_sleeping_{0};
  Mutex mutex_;
  CondVar posted_;
};

}  // namespace lockstep::worker
