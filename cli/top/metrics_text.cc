#include "cli/top/metrics_text.h"

#include <absl/strings/numbers.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::cli {
namespace {

// A router with a thousand workers has a tenth of this number.
constexpr size_t kMaxSamples = size_t{1} << 18;

// `text`: the part between the braces: name="value",name="value".
MetricsText::Labels ParseLabels(std::string_view text) {
  MetricsText::Labels labels;
  while (!text.empty()) {
    const size_t equals = text.find("=\"");
    if (equals == std::string_view::npos) break;
    std::string value;
    size_t at = equals + 2;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      value += text[at];
    }
    labels[std::string(text.substr(0, equals))] = value;
    text.remove_prefix(std::min(at + 1, text.size()));
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  return labels;
}

bool HasLabels(const MetricsText::Labels& all, const MetricsText::Labels& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const auto found = all.find(label.first);
    return found != all.end() && found->second == label.second;
  });
}

// `buckets`: ascending.
double CountUpTo(const std::vector<std::pair<double, double>>& buckets, double border) {
  const auto found =
      std::lower_bound(buckets.begin(), buckets.end(), border,
                       [](const auto& bucket, double wanted) { return bucket.first < wanted; });
  return found == buckets.end() || found->first != border ? 0 : found->second;
}

}  // namespace

MetricsText MetricsText::Parse(std::string_view text) {
  MetricsText metrics;
  while (!text.empty() && metrics.samples_.size() < kMaxSamples) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string_view::npos) continue;
    Sample sample;
    if (!absl::SimpleAtod(std::string(line.substr(space + 1)), &sample.value)) continue;
    const std::string_view series = line.substr(0, space);
    const size_t brace = series.find('{');
    if (brace != std::string_view::npos) {
      const size_t close = std::max(series.rfind('}'), brace + 1);
      sample.labels = ParseLabels(series.substr(brace + 1, close - brace - 1));
    }
    metrics.samples_.emplace(std::string(series.substr(0, brace)), std::move(sample));
  }
  return metrics;
}

std::optional<double> MetricsText::Sum(const std::string& name, const Labels& labels) const {
  std::optional<double> sum;
  const auto [first, last] = samples_.equal_range(name);
  for (auto it = first; it != last; ++it) {
    if (HasLabels(it->second.labels, labels)) sum = sum.value_or(0) + it->second.value;
  }
  return sum;
}

std::vector<std::pair<double, double>> MetricsText::Buckets(const std::string& histogram) const {
  std::map<double, double> counts;
  const auto [first, last] = samples_.equal_range(histogram + "_bucket");
  for (auto it = first; it != last; ++it) {
    const auto border = it->second.labels.find("le");
    double upper = std::numeric_limits<double>::infinity();
    if (border == it->second.labels.end()) continue;
    if (border->second != "+Inf" && !absl::SimpleAtod(border->second, &upper)) continue;
    counts[upper] += it->second.value;
  }
  return {counts.begin(), counts.end()};
}

std::vector<std::string> MetricsText::LabelsWith(const std::string& name, const std::string& label,
                                                 double value) const {
  std::vector<std::string> values;
  const auto [first, last] = samples_.equal_range(name);
  for (auto it = first; it != last; ++it) {
    const auto found = it->second.labels.find(label);
    if (it->second.value == value && found != it->second.labels.end()) {
      values.push_back(found->second);
    }
  }
  return values;
}

std::optional<double> QuantileBetween(const std::vector<std::pair<double, double>>& before,
                                      const std::vector<std::pair<double, double>>& after,
                                      double quantile) {
  if (after.empty()) return std::nullopt;
  const auto counted = [&](const std::pair<double, double>& bucket) {
    return bucket.second - CountUpTo(before, bucket.first);
  };
  const double total = counted(after.back());
  if (total <= 0) return std::nullopt;
  const double rank = quantile * total;
  double lower_border = 0;
  double lower_count = 0;
  for (const std::pair<double, double>& bucket : after) {
    const double count = counted(bucket);
    if (count >= rank && count > lower_count) {
      // The last bucket has no upper border, so take its lower border.
      if (std::isinf(bucket.first)) return lower_border;
      return lower_border +
             (bucket.first - lower_border) * (rank - lower_count) / (count - lower_count);
    }
    lower_border = bucket.first;
    lower_count = count;
  }
  return lower_border;
}

}  // namespace lockstep::cli
