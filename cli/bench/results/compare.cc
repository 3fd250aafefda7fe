#include "cli/bench/results/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::cli {
namespace {

struct Figure {
  const char* name;
  double (*of)(const BenchSummary&);
  bool more_is_better;
};

constexpr auto kFigures = std::to_array<Figure>({
    {"output_tokens_per_s", [](const BenchSummary& s) { return s.output_tokens_per_s; }, true},
    {"requests_per_s", [](const BenchSummary& s) { return s.requests_per_s; }, true},
    {"goodput", [](const BenchSummary& s) { return s.goodput; }, true},
    {"ttft_ms.p50", [](const BenchSummary& s) { return s.ttft_ms.p50; }, false},
    {"ttft_ms.p99", [](const BenchSummary& s) { return s.ttft_ms.p99; }, false},
    {"tpot_ms.p50", [](const BenchSummary& s) { return s.tpot_ms.p50; }, false},
    {"tpot_ms.p99", [](const BenchSummary& s) { return s.tpot_ms.p99; }, false},
    {"itl_ms.p99", [](const BenchSummary& s) { return s.itl_ms.p99; }, false},
    {"e2e_ms.p50", [](const BenchSummary& s) { return s.e2e_ms.p50; }, false},
});

struct Repeats {
  double median = 0.0;
  double noise = 0.0;
};

std::vector<double> Values(std::span<const RunResult> runs, const std::string& load,
                           const Figure& figure) {
  std::vector<double> values;
  for (const RunResult& run : runs) {
    if (run.load == load) values.push_back(figure.of(run.summary));
  }
  std::ranges::sort(values);
  return values;
}

Repeats DescribeRepeats(const std::vector<double>& sorted) {
  const size_t half = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  const double spread = sorted.back() - sorted.front();
  return {.median = median, .noise = median > 0 ? spread / 2 / median : 0.0};
}

}  // namespace

std::vector<Comparison> Compare(std::span<const RunResult> before, std::span<const RunResult> after,
                                double threshold) {
  std::vector<std::string> loads;
  for (const RunResult& run : before) {
    if (std::ranges::find(loads, run.load) == loads.end()) loads.push_back(run.load);
  }
  std::vector<Comparison> comparisons;
  for (const std::string& load : loads) {
    for (const Figure& figure : kFigures) {
      const std::vector<double> old_values = Values(before, load, figure);
      const std::vector<double> new_values = Values(after, load, figure);
      if (new_values.empty()) continue;
      const Repeats was = DescribeRepeats(old_values);
      const Repeats is = DescribeRepeats(new_values);
      if (was.median <= 0) continue;
      Comparison& comparison = comparisons.emplace_back();
      comparison = {.load = load,
                    .figure = figure.name,
                    .before = was.median,
                    .after = is.median,
                    .change = is.median / was.median - 1,
                    .noise = std::max(was.noise, is.noise)};
      if (std::abs(comparison.change) > std::max(threshold, comparison.noise)) {
        comparison.verdict =
            (comparison.change > 0) == figure.more_is_better ? Verdict::kBetter : Verdict::kWorse;
      }
    }
  }
  return comparisons;
}

std::string ToMarkdown(std::span<const Comparison> comparisons) {
  std::string text =
      "| load | figure | before | after | change | noise | |\n|---|---|---:|---:|---:|---:|---|\n";
  for (const Comparison& one : comparisons) {
    text += fmt::format("| {} | {} | {:.5g} | {:.5g} | {:+.1f} % | {:.1f} % | {} |\n", one.load,
                        one.figure, one.before, one.after, 100 * one.change, 100 * one.noise,
                        one.verdict == Verdict::kSame     ? ""
                        : one.verdict == Verdict::kBetter ? "better"
                                                          : "worse");
  }
  return text;
}

}  // namespace lockstep::cli
