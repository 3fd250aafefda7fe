#include "cli/bench/results/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace lockstep::cli {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 420;
constexpr double kLeft = 70;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 60;
constexpr int kTicks = 6;
constexpr size_t kMaxPoints = 500;
// Distinct with most kinds of colour vision.
constexpr std::array<const char*, 6> kColours = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#56b4e9", "#e69f00"};

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Maps a value to a place on an axis.
struct Axis {
  double from;
  double to;
  bool is_log;

  double Share(double value) const {
    if (!is_log) return (value - from) / (to - from);
    return (std::log(value) - std::log(from)) / (std::log(to) - std::log(from));
  }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (is_log) {
      for (double tick = std::pow(10, std::floor(std::log10(from))); tick <= to; tick *= 10) {
        if (tick >= from) ticks.push_back(tick);
      }
      if (ticks.size() > 1) return ticks;
      return {from, to};
    }
    const double raw = (to - from) / kTicks;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    const double step = power * (raw / power > 5 ? 10 : raw / power > 2 ? 5 : 2);
    for (double tick = std::ceil(from / step) * step; tick <= to + step * 1e-9; tick += step) {
      ticks.push_back(tick);
    }
    return ticks;
  }
};

Axis AxisOf(const Plot& plot, bool of_x) {
  double least = of_x && plot.log_x ? INFINITY : 0.0;
  double most = -INFINITY;
  for (const PlotLine& line : plot.lines) {
    for (const auto& [x, y] : line.points) {
      if (plot.log_x && x <= 0) continue;
      least = std::min(least, of_x ? x : y);
      most = std::max(most, of_x ? x : y);
    }
  }
  if (!(least < most)) most = least + 1;
  if (!std::isfinite(least)) least = 1, most = 10;
  return {.from = least, .to = most, .is_log = of_x && plot.log_x};
}

// Every n-th point, and the last one.
std::vector<std::pair<double, double>> Thinned(
    const std::vector<std::pair<double, double>>& points) {
  const size_t step = points.size() / kMaxPoints + 1;
  std::vector<std::pair<double, double>> kept;
  for (size_t i = 0; i < points.size(); i += step) kept.push_back(points[i]);
  if (!points.empty() && kept.back() != points.back()) kept.push_back(points.back());
  return kept;
}

}  // namespace

std::string ToSvg(const Plot& plot) {
  const Axis x_axis = AxisOf(plot, true);
  const Axis y_axis = AxisOf(plot, false);
  const auto place_x = [&](double x) {
    return kLeft + x_axis.Share(x) * (kWidth - kLeft - kRight);
  };
  const auto place_y = [&](double y) {
    return kHeight - kBottom - y_axis.Share(y) * (kHeight - kTop - kBottom);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
      "<text x=\"{2}\" y=\"20\" text-anchor=\"middle\" font-size=\"15\">{3}</text>\n",
      kWidth, kHeight, kWidth / 2, Escaped(plot.title));
  for (const double tick : x_axis.Ticks()) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        place_x(tick), kTop, kHeight - kBottom, kHeight - kBottom + 16, tick);
  }
  for (const double tick : y_axis.Ticks()) {
    svg += fmt::format(
        "<line x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        place_y(tick), kLeft, kWidth - kRight, kLeft - 6, place_y(tick) + 4, tick);
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
      "<text x=\"16\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {})\">{}</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - kBottom + 36, Escaped(plot.x_label),
      (kTop + kHeight - kBottom) / 2, (kTop + kHeight - kBottom) / 2, Escaped(plot.y_label));
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const char* const colour = kColours[i % kColours.size()];
    std::string path;
    for (const auto& [x, y] : Thinned(plot.lines[i].points)) {
      if (plot.log_x && x <= 0) continue;
      path += fmt::format("{:.1f},{:.1f} ", place_x(x), place_y(y));
    }
    svg += fmt::format(
        "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"1.5\" points=\"{1}\"/>\n"
        "<line x1=\"{2}\" x2=\"{3}\" y1=\"{4}\" y2=\"{4}\" stroke=\"{0}\" stroke-width=\"3\"/>"
        "<text x=\"{5}\" y=\"{6}\">{7}</text>\n",
        colour, path, kLeft + 12, kLeft + 32, kTop + 14 + 16 * static_cast<double>(i), kLeft + 38,
        kTop + 18 + 16 * static_cast<double>(i), Escaped(plot.lines[i].name));
  }
  return svg + "</svg>\n";
}

PlotLine CumulativeLine(std::string name, std::vector<double> samples) {
  std::ranges::sort(samples);
  PlotLine line = {.name = std::move(name), .points = {}};
  for (size_t i = 0; i < samples.size(); ++i) {
    line.points.emplace_back(samples[i],
                             static_cast<double>(i + 1) / static_cast<double>(samples.size()));
  }
  return line;
}

Plot ItlOverTime(const std::string& title, std::span<const RequestRecord> records) {
  std::map<int64_t, std::vector<double>> by_second;
  for (const RequestRecord& record : records) {
    for (size_t i = 1; i < record.pieces.size(); ++i) {
      by_second[static_cast<int64_t>(record.pieces[i])].push_back(
          (record.pieces[i] - record.pieces[i - 1]) * 1e3);
    }
  }
  PlotLine median = {.name = "p50", .points = {}};
  PlotLine tail = {.name = "p99", .points = {}};
  for (auto& [second, samples] : by_second) {
    const Distribution of = Describe(samples);
    median.points.emplace_back(static_cast<double>(second), of.p50);
    tail.points.emplace_back(static_cast<double>(second), of.p99);
  }
  return {.title = title,
          .x_label = "seconds since the load began",
          .y_label = "ms between pieces of output",
          .lines = {std::move(median), std::move(tail)}};
}

Plot LatencyDistributions(const std::string& title, std::span<const RequestRecord> records) {
  std::vector<double> first;
  std::vector<double> per_token;
  std::vector<double> whole;
  for (const RequestRecord& record : records) {
    if (!record.error.empty() || record.pieces.empty()) continue;
    first.push_back((record.pieces.front() - record.scheduled) * 1e3);
    whole.push_back((record.end - record.scheduled) * 1e3);
    if (const auto time = TimePerOutputToken(record)) per_token.push_back(*time);
  }
  return {.title = title,
          .x_label = "ms",
          .y_label = "share of requests",
          .log_x = true,
          .lines = {CumulativeLine("first token", std::move(first)),
                    CumulativeLine("per token", std::move(per_token)),
                    CumulativeLine("whole request", std::move(whole))}};
}

Plot LatencyAgainstLoad(std::span<const RunResult> runs) {
  std::map<std::string, PlotLine> lines;
  for (const RunResult& run : runs) {
    for (const auto& [name, value] : {std::pair("first token p50", run.summary.ttft_ms.p50),
                                      std::pair("first token p99", run.summary.ttft_ms.p99)}) {
      PlotLine& line = lines[run.target + ", " + name];
      line.name = run.target + ", " + name;
      line.points.emplace_back(run.summary.output_tokens_per_s, value);
    }
  }
  Plot plot = {.title = "Latency against load",
               .x_label = "output tokens/s",
               .y_label = "ms to the first token",
               .lines = {}};
  for (auto& [name, line] : lines) {
    std::ranges::sort(line.points);
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

}  // namespace lockstep::cli
