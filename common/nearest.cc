#include "common/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances of a prefix of `a` to every prefix of `b`
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> Nearest(std::string_view word,
                                        std::span<const std::string_view> candidates) {
  std::optional<std::string_view> best;
  size_t least = 0;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    const size_t most = std::max(std::min<size_t>(2, candidate.size() / 2), candidate.size() / 3);
    if (distance > most) continue;
    if (!best || distance < least) {
      best = candidate;
      least = distance;
    }
  }
  return best;
}

}  // namespace lockstep
