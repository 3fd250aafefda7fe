#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "router/engine/strand.h"

namespace lockstep::router {

// The strands that wait for the threads of a runner, and how many of those are to come for them.
// Waking a thread costs as much as several strands take to run, so one comes for every
// kStrandsPerTaker that wait, takes a few at a time, and stays until none waits. Not safe to use
// from several threads: the runner's lock guards it.
class StrandQueue {
 public:
  static constexpr size_t kStrandsPerTaker = 32;

  explicit StrandQueue(size_t max_takers) : max_takers_(max_takers) {}

  // True: a taker must come; it calls Take, and leaves by Leave.
  bool Push(std::shared_ptr<Strand> strand) {
    strands_.push_back(std::move(strand));
    if (num_takers_ == max_takers_ || strands_.size() <= kStrandsPerTaker * num_takers_) {
      return false;
    }
    ++num_takers_;
    return true;
  }

  // The first ones, at most `max_count`; perhaps none.
  std::vector<std::shared_ptr<Strand>> Take(size_t max_count) {
    const auto last =
        strands_.begin() + static_cast<std::ptrdiff_t>(std::min(strands_.size(), max_count));
    std::vector<std::shared_ptr<Strand>> taken(std::make_move_iterator(strands_.begin()),
                                               std::make_move_iterator(last));
    strands_.erase(strands_.begin(), last);
    return taken;
  }
  // False when some wait: the taker must go on.
  bool Leave() {
    if (!strands_.empty()) return false;
    --num_takers_;
    return true;
  }

  // Nobody waits, and nobody is to come.
  bool idle() const { return strands_.empty() && num_takers_ == 0; }

 private:
  const size_t max_takers_;
  std::deque<std::shared_ptr<Strand>> strands_;
  size_t num_takers_ = 0;
};

}  // namespace lockstep::router
