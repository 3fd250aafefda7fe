#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep::worker {

// A set of integers below a fixed bound that is emptied in constant time and never allocates.
class StampSet {
 public:
  explicit StampSet(size_t bound) : stamps_(bound, 0) {}

  void Clear() {
    if (++current_ == 0) {
      std::fill(stamps_.begin(), stamps_.end(), 0);
      current_ = 1;
    }
  }
  bool Contains(size_t value) const { return stamps_[value] == current_; }
  // False if it was in the set already.
  bool Insert(size_t value) {
    if (Contains(value)) return false;
    stamps_[value] = current_;
    return true;
  }

 private:
  std::vector<uint32_t> stamps_;
  uint32_t current_ = 1;
};

}  // namespace lockstep::worker
