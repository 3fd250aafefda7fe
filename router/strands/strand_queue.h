#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "router/strands/strand.h"

namespace lockstep::router {

// The strands that wait for the threads of a runner, and how many threads come to take them. Waking
// a thread costs as much as running several strands. So one thread comes for every kStrandsPerTaker
// strands that wait, takes a few at a time, and stays until none waits. Urgent strands go first,
// but other strands get up to half of what is taken. Not safe to use from several threads: the
// runner's lock guards it.
class StrandQueue {
 public:
  static constexpr size_t kStrandsPerTaker = 32;

  explicit StrandQueue(size_t max_takers) : max_takers_(max_takers) {}

  // True: one more thread must come as a taker. It calls Take, and at the end Leave.
  bool Push(std::shared_ptr<Strand> strand) {
    (strand->urgent() ? urgent_ : others_).push_back(std::move(strand));
    if (num_takers_ == max_takers_ || size() <= kStrandsPerTaker * num_takers_) return false;
    ++num_takers_;
    return true;
  }

  // Takes the first strands, at most `max_count`; perhaps none.
  std::vector<std::shared_ptr<Strand>> Take(size_t max_count) {
    std::vector<std::shared_ptr<Strand>> taken;
    taken.reserve(std::min(size(), max_count));
    Move(urgent_, max_count - std::min(others_.size(), max_count / 2), taken);
    Move(others_, max_count - taken.size(), taken);
    return taken;
  }
  // False when some wait: the taker must go on.
  bool Leave() {
    if (size() > 0) return false;
    --num_takers_;
    return true;
  }

  size_t size() const { return urgent_.size() + others_.size(); }
  bool any_urgent() const { return !urgent_.empty(); }
  // No strand waits, and there is no taker.
  bool idle() const { return size() == 0 && num_takers_ == 0; }

 private:
  using Strands = std::deque<std::shared_ptr<Strand>>;

  static void Move(Strands& from, size_t max_count, std::vector<std::shared_ptr<Strand>>& to) {
    for (; max_count > 0 && !from.empty(); --max_count) {
      to.push_back(std::move(from.front()));
      from.pop_front();
    }
  }

  const size_t max_takers_;
  Strands urgent_;
  Strands others_;
  size_t num_takers_ = 0;
};

}  // namespace lockstep::router
