#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/bench/results/run_result.h"

namespace lockstep::cli {

enum class Verdict { kSame, kBetter, kWorse };

// One figure of one load, before and after.
struct Comparison {
  std::string load;
  std::string figure;   // "output_tokens_per_s", "ttft_ms.p99"
  double before = 0.0;  // medians of the repeats
  double after = 0.0;
  double change = 0.0;  // of `before`: 0.1 is 10 % more
  // Half the spread of the repeats over their median, the larger of both sides; 0 for single runs.
  double noise = 0.0;
  Verdict verdict = Verdict::kSame;
};

// Compares the loads that both sides have, and leaves out the others. A change counts if it is
// larger than the noise and than `threshold` (0.05 is 5 %).
std::vector<Comparison> Compare(std::span<const RunResult> before, std::span<const RunResult> after,
                                double threshold);
std::string ToMarkdown(std::span<const Comparison> comparisons);

}  // namespace lockstep::cli
