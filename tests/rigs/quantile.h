#pragma once

#include <algorithm>
#include <vector>

namespace lockstep::bench {

// The value at `share` (0 .. 1) of the way through the sorted values, rounded down; 0 of none.
inline double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace lockstep::bench
