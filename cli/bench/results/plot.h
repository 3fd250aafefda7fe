#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/results/request_record.h"
#include "cli/bench/results/run_result.h"

namespace lockstep::cli {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // ascending in x
};

struct Plot {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // points with x <= 0 are left out
  std::vector<PlotLine> lines;
};

// An SVG image without references to other files.
std::string ToSvg(const Plot& plot);

// The share of samples up to each value.
PlotLine CumulativeLine(std::string name, std::vector<double> samples);
// Times between pieces of output, for each second: their median and p99, in ms.
Plot ItlOverTime(const std::string& title, std::span<const RequestRecord> records);
// Cumulative distributions of first tokens, times per token and whole requests, in ms.
Plot LatencyDistributions(const std::string& title, std::span<const RequestRecord> records);
// Latency of each target against its output tokens a second, over all levels.
Plot LatencyAgainstLoad(std::span<const RunResult> runs);

}  // namespace lockstep::cli
