#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <vector>

namespace lockstep::router {

// How long a step of decodes takes, by the number of tokens that it computes: one for each
// sequence, and its drafts. Learned from measured steps. Keeps exponential means for ranges of
// numbers, whose widths grow with the numbers, and joins them to a line that never falls.
class StepTimes {
 public:
  // A step that was computed, without prompts. Times of zero or less are ignored.
  void Observe(uint32_t num_tokens, absl::Duration compute);

  bool empty() const { return line_.empty(); }
  // Seconds. Never falls as `num_tokens` grows. Call only if not empty.
  double Seconds(double num_tokens) const;
  // Estimates reach twice as far as measurements that are not forgotten. Beyond, nothing is known.
  double max_tokens() const;
  // True if a step of about as many tokens was measured lately.
  bool WasMeasuredLately(uint32_t num_tokens) const;

 private:
  struct Range {
    double mean_tokens = 0, mean_seconds = 0;
    uint64_t count = 0;
    uint64_t last_step = 0;  // as counted by num_steps_
  };
  // Part of the line that has one height.
  struct Level {
    double first_tokens = 0, last_tokens = 0;
    double seconds = 0;
    double weight = 1;  // measured ranges that it stands for
  };

  void Fit();

  std::vector<Range> ranges_;  // by RangeOf
  std::vector<Level> line_;    // rising in both coordinates
  uint64_t num_steps_ = 0;
};

}  // namespace lockstep::router
