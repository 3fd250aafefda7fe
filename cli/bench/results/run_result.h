#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/results/summary.h"

namespace lockstep::cli {

// One load that ran to its end.
struct RunResult {
  std::string target;  // the server's URL, or a name that the user gave it
  std::string load;    // "128 streams", "10 requests/s"
  double level = 0.0;  // that number
  int repeat = 0;      // from 0
  BenchSummary summary;
};

// The results of a whole benchmark, and how it was made.
struct BenchResult {
  std::string date;     // "2026-11-23"
  std::string version;  // of this program
  std::string command;  // its arguments
  std::vector<RunResult> runs;
};

std::string ToJson(const BenchResult& result);
// INVALID_ARGUMENT if the text does not come from ToJson.
absl::StatusOr<BenchResult> ParseBenchResult(std::string_view json);
// A table with a line for each run, and the failures below it.
std::string ToMarkdown(const BenchResult& result);

}  // namespace lockstep::cli
