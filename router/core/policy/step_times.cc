#include "router/core/policy/step_times.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace lockstep::router {
namespace {

// Numbers below 32 have ranges of their own. Above, each power of two has 16 ranges.
constexpr uint32_t kFirstWide = 32;
constexpr uint32_t kRangesOfPower = 16, kLog2OfRanges = 4;

size_t RangeOf(uint32_t num_tokens) {
  if (num_tokens < kFirstWide) return num_tokens;
  const auto log2 = static_cast<uint32_t>(std::bit_width(num_tokens)) - 1;
  const uint32_t part = (num_tokens >> (log2 - kLog2OfRanges)) % kRangesOfPower;
  return kFirstWide + kRangesOfPower * (log2 - std::bit_width(kFirstWide) + 1) + part;
}

// A mean is over about the last eight steps. A measurement that comes after many steps of other
// numbers has more weight.
constexpr double kLeastWeight = 1.0 / 8, kMostWeight = 0.5;
constexpr double kStepsOfWholeWeight = 256;
// A single slow step, as on a busy machine, counts as at most twice the mean.
constexpr double kMostOfMean = 2;
constexpr uint64_t kCountsFrom = 4;
// After so many steps without a measurement, a range is forgotten: contexts have grown meanwhile.
constexpr uint64_t kStepsToForget = 4096;
constexpr uint64_t kLately = 64;
// With one range measured: twice as many tokens take a quarter longer. It is measured soon.
constexpr double kUnmeasuredGrowth = 0.25;

}  // namespace

void StepTimes::Observe(uint32_t num_tokens, absl::Duration compute) {
  if (num_tokens == 0 || compute <= absl::ZeroDuration()) return;
  ++num_steps_;
  const size_t index = RangeOf(num_tokens);
  if (ranges_.size() <= index) ranges_.resize(index + 1);
  Range& range = ranges_[index];
  if (range.count > 0 && num_steps_ - range.last_step > kStepsToForget) range = {};
  double seconds = absl::ToDoubleSeconds(compute);
  if (range.count >= kCountsFrom) seconds = std::min(seconds, kMostOfMean * range.mean_seconds);
  const auto num_steps_since = static_cast<double>(num_steps_ - range.last_step);
  const double weight =
      std::max(std::clamp(num_steps_since / kStepsOfWholeWeight, kLeastWeight, kMostWeight),
               1.0 / static_cast<double>(++range.count));
  range.mean_tokens += (num_tokens - range.mean_tokens) * weight;
  range.mean_seconds += (seconds - range.mean_seconds) * weight;
  range.last_step = num_steps_;
  Fit();
}

// Where a larger number took less time, both count as equal (pool adjacent violators).
void StepTimes::Fit() {
  line_.clear();
  for (const Range& range : ranges_) {
    if (range.count == 0 || num_steps_ - range.last_step > kStepsToForget) continue;
    Level level = {range.mean_tokens, range.mean_tokens, range.mean_seconds};
    while (!line_.empty() && line_.back().seconds >= level.seconds) {
      const Level& last = line_.back();
      const double weight = last.weight + level.weight;
      level.seconds = (last.seconds * last.weight + level.seconds * level.weight) / weight;
      level.weight = weight;
      level.first_tokens = last.first_tokens;
      line_.pop_back();
    }
    line_.push_back(level);
  }
}

double StepTimes::Seconds(double num_tokens) const {
  const auto after = std::ranges::lower_bound(line_, num_tokens, {}, &Level::last_tokens);
  if (after != line_.end() && num_tokens >= after->first_tokens) return after->seconds;
  if (after != line_.begin() && after != line_.end()) {
    const Level& before = *(after - 1);
    const double share =
        (num_tokens - before.last_tokens) / (after->first_tokens - before.last_tokens);
    return before.seconds + share * (after->seconds - before.seconds);
  }
  // Outside of what was measured, as steep as all of it.
  const Level& first = line_.front();
  const Level& last = line_.back();
  const double num_measured = last.last_tokens - first.first_tokens;
  const double slope = num_measured == 0 ? kUnmeasuredGrowth * last.seconds / last.last_tokens
                                         : (last.seconds - first.seconds) / num_measured;
  if (after == line_.end()) return last.seconds + slope * (num_tokens - last.last_tokens);
  // No token is dearer than all together.
  return std::max(first.seconds - slope * (first.first_tokens - num_tokens),
                  first.seconds * num_tokens / first.first_tokens);
}

double StepTimes::max_tokens() const { return line_.empty() ? 0 : 2 * line_.back().last_tokens; }

bool StepTimes::WasMeasuredLately(uint32_t num_tokens) const {
  const size_t index = RangeOf(num_tokens);
  return index < ranges_.size() && ranges_[index].count > 0 &&
         num_steps_ - ranges_[index].last_step < kLately;
}

}  // namespace lockstep::router
