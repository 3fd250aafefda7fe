#pragma once

#include <absl/container/flat_hash_map.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "router/strands/strand.h"

namespace lockstep::router {

// Strands that wait for threads. Their owners share the time of the threads fairly. The owner that
// was given less time goes first, and within an owner the size class that was given less. So one
// owner's many, large or slow strands do not hold up another owner's strands, and an owner's small
// strands do not wait for its large ones. When a strand gets its turn, its time is estimated by its
// bytes of work. When it has run, the time that it took replaces the estimate. (Start-time fair
// queueing, Goyal et al. 1996, on two levels.) Not safe to use from several threads.
class FairQueue {
  struct Class;
  struct Owner;

 public:
  // A strand with more work than this is large: it keeps a thread for milliseconds.
  static constexpr size_t kMaxSmallBytes = size_t{64} << 10;

  FairQueue();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;
  ~FairQueue();

  // The turn of one strand.
  struct Turn {
    std::shared_ptr<Strand> strand;  // null: none
    bool large = false;

   private:
    friend class FairQueue;
    Owner* owner = nullptr;
    Class* size_class = nullptr;
    std::chrono::nanoseconds estimate{};
  };

  // Which large strands may get a turn.
  enum class Large {
    kNone,
    kOfNewOwners,  // only those of owners that run no large strand now
    kAll,
  };

  void Push(std::shared_ptr<Strand> strand);
  // The next strand that is small, or that `large` allows. Finish must follow.
  Turn Pop(Large large);
  // `turn`: the strand ran, and kept a thread for `taken`.
  void Finish(const Turn& turn, std::chrono::nanoseconds taken);

  // Call when no popped strand runs any more. If nothing waits either, forgets what owners were
  // given before.
  void Rest();
  std::vector<std::shared_ptr<Strand>> TakeAll();

  bool empty() const { return active_.empty(); }
  static bool IsLarge(const Strand& strand) { return strand.num_work_bytes() > kMaxSmallBytes; }

 private:
  // By work: up to 4 KiB, 16 KiB, kMaxSmallBytes, and large ones.
  static constexpr size_t kNumClasses = 4;
  static constexpr size_t kLargeClass = kNumClasses - 1;

  static size_t ClassOf(const Strand& strand);
  Owner& OwnerOf(const Strand& strand);
  void ForgetIdleOwners();

  // An owner is kept while its strands wait or run, or while it has had more than its share lately.
  absl::flat_hash_map<std::string, std::unique_ptr<Owner>> owners_;
  // Owners with waiting strands, by their start.
  std::set<std::pair<std::chrono::nanoseconds, Owner*>> active_;
  std::chrono::nanoseconds virtual_time_{};  // start of the work that was given out last
  size_t num_pops_ = 0;
};

}  // namespace lockstep::router
