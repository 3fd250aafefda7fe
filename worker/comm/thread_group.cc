#include "worker/comm/thread_group.h"

#include <algorithm>

#include "common/check.h"
#include "common/runtime/spin.h"

namespace lockstep::worker {
namespace {

// A process that was suspended, such as a paused container, finds its time over when it continues.
// The other ranks then need a moment.
constexpr std::chrono::seconds kLastWait{1};

}  // namespace

ThreadGroup::ThreadGroup(int degree, std::chrono::nanoseconds hung_after)
    : degree_(degree), hung_after_(hung_after), members_(static_cast<size_t>(degree)) {}

void ThreadGroup::AllGather(int rank, const AllGatherParams& params) {
  Member& self = members_[static_cast<size_t>(rank)];
  const uint64_t call = self.num_posted.load(std::memory_order_relaxed);
  LOCKSTEP_CHECK(call == 0 || self.posts[(call - 1) % 2].columns != params.columns,
                 "rank {}: the columns of call {} lie where those of the call before lie, which "
                 "other ranks may still read",
                 rank, call);
  Post(rank, params);
  const int64_t share = params.num_columns / degree_;
  for (int turn = 0; turn < degree_; ++turn) {
    // Its own columns first: the others may not have arrived yet.
    const int peer = (rank + turn) % degree_;
    const AllGatherParams& post = Await(rank, peer, call);
    for (int64_t row = 0; row < params.num_rows; ++row) {
      std::copy_n(post.columns + row * share, share,
                  params.output + row * params.num_columns + peer * share);
    }
  }
}

void ThreadGroup::Post(int rank, const AllGatherParams& params) {
  Member& self = members_[static_cast<size_t>(rank)];
  const uint64_t call = self.num_posted.load(std::memory_order_relaxed);
  self.posts[call % 2] = params;
  // Sequentially consistent, like the waiting thread's increment of num_sleeping_ and its last
  // check of num_posted. So either this thread sees that the other one sleeps, or the other one
  // sees the post.
  self.num_posted.store(call + 1);
  if (num_sleeping_.load() == 0) return;
  MutexLock lock(mutex_);
  posted_.NotifyAll();
}

const AllGatherParams& ThreadGroup::Await(int rank, int peer, uint64_t call) {
  const Member& other = members_[static_cast<size_t>(peer)];
  const auto has_posted = [&other, call] { return other.num_posted.load() > call; };
  if (!SpinBriefly(has_posted)) {
    auto deadline = std::chrono::steady_clock::now() + hung_after_;
    bool is_last_wait = false;
    MutexLock lock(mutex_);
    num_sleeping_.fetch_add(1);
    while (!has_posted()) {
      std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero() && !is_last_wait) {
        is_last_wait = true;
        left = kLastWait;
        deadline = std::chrono::steady_clock::now() + kLastWait;
      }
      LOCKSTEP_CHECK(
          left > left.zero(), "rank {} has waited {} ms for rank {} in exchange {}", rank,
          std::chrono::duration_cast<std::chrono::milliseconds>(hung_after_).count(), peer, call);
      posted_.WaitFor(mutex_, left);
    }
    num_sleeping_.fetch_sub(1);
  }
  const AllGatherParams& mine = members_[static_cast<size_t>(rank)].posts[call % 2];
  const AllGatherParams& post = other.posts[call % 2];
  LOCKSTEP_CHECK(post.num_rows == mine.num_rows && post.num_columns == mine.num_columns,
                 "exchange {}: rank {} has [{}, {}], rank {} has [{}, {}]", call, rank,
                 mine.num_rows, mine.num_columns, peer, post.num_rows, post.num_columns);
  return post;
}

}  // namespace lockstep::worker
