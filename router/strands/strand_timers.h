#pragma once

#include <absl/container/flat_hash_map.h>

#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "router/strands/strand.h"

namespace lockstep::router {

// When strands are to be scheduled, at most one time for each. Not safe to use from several
// threads.
class StrandTimers {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Replaces the time that was set before; Time::max(): no time.
  void Set(std::shared_ptr<Strand> strand, Time at) {
    if (const auto before = at_.find(strand.get()); before != at_.end()) {
      by_time_.erase({before->second, strand});
      at_.erase(before);
    }
    if (at == Time::max()) return;
    at_.emplace(strand.get(), at);
    by_time_.emplace(at, std::move(strand));
  }

  // Time::max(): none waits.
  Time next() const { return by_time_.empty() ? Time::max() : by_time_.begin()->first; }

  // Takes the strands that are due, the earliest first. Their times are then unset.
  std::vector<std::shared_ptr<Strand>> TakeDue(Time now) {
    std::vector<std::shared_ptr<Strand>> due;
    while (!by_time_.empty() && by_time_.begin()->first <= now) {
      due.push_back(by_time_.begin()->second);
      at_.erase(due.back().get());
      by_time_.erase(by_time_.begin());
    }
    return due;
  }

 private:
  absl::flat_hash_map<Strand*, Time> at_;
  std::set<std::pair<Time, std::shared_ptr<Strand>>> by_time_;
};

}  // namespace lockstep::router
