#include "common/runtime/metrics.h"

namespace lockstep {

std::vector<double> LengthBuckets(uint64_t max_tokens) {
  std::vector<double> buckets;
  const double last = static_cast<double>(max_tokens);
  for (double decade = 1; buckets.empty() || buckets.back() < last; decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      buckets.push_back(decade * factor);
      if (buckets.back() >= last) break;
    }
  }
  return buckets;
}

}  // namespace lockstep
