#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/strands/strand.h"

namespace lockstep::router {

// Strands that wait for threads which their owners share fairly, by bytes of work: an owner with
// less behind it goes first, and of an owner's strands those of a size class with less behind it.
// So neither many strands nor large ones of one owner hold up another's, and an owner's small ones
// do not wait for its large ones. (Start-time fair queueing, Goyal et al. 1996, on two levels.) Not
// safe to use from several threads.
class FairQueue {
 public:
  // One with more work than this is large: it keeps a thread for milliseconds.
  static constexpr size_t kMaxSmallBytes = size_t{64} << 10;

  FairQueue();
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;
  ~FairQueue();

  void Push(std::shared_ptr<Strand> strand);
  // Null when there is none; only a small one where `large_too` is false.
  std::shared_ptr<Strand> Pop(bool large_too);

  // Nothing waits, and nothing runs that was popped: what anybody had before counts no longer.
  void Rest();
  std::vector<std::shared_ptr<Strand>> TakeAll();

  bool empty() const { return active_.empty(); }
  static bool IsLarge(const Strand& strand) { return strand.num_work_bytes() > kMaxSmallBytes; }

 private:
  // By work: up to 4 KiB, 16 KiB, kMaxSmallBytes, and large ones.
  static constexpr size_t kNumClasses = 4;
  static constexpr size_t kLargeClass = kNumClasses - 1;
  struct Class;
  struct Owner;

  static size_t ClassOf(const Strand& strand);
  Owner& OwnerOf(const Strand& strand);
  void ForgetIdleOwners();

  // Kept while it waits, or has had more than its share lately.
  absl::flat_hash_map<std::string, std::unique_ptr<Owner>> owners_;
  std::set<std::pair<uint64_t, Owner*>> active_;  // those that wait, by their start
  uint64_t virtual_time_ = 0;                     // start of the work that was given out last
  size_t num_pops_ = 0;
};

}  // namespace lockstep::router
