#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::cli {

// A scrape of /metrics in Prometheus' text format, for looking things up. Pure.
class MetricsText {
 public:
  using Labels = std::map<std::string, std::string>;

  // Lines that are no samples are left out, and so are samples beyond the first 262,144.
  static MetricsText Parse(std::string_view text);

  // The sum over all series of this name that have these labels; none if there is no such series.
  std::optional<double> Sum(const std::string& name, const Labels& labels = {}) const;
  // Upper borders and cumulative counts, ascending, added up over all series of a histogram.
  std::vector<std::pair<double, double>> Buckets(const std::string& histogram) const;
  // The values that a label has among the series of this name with this value, with repetitions.
  std::vector<std::string> LabelsWith(const std::string& name, const std::string& label,
                                      double value) const;

 private:
  struct Sample {
    Labels labels;
    double value = 0;
  };
  std::multimap<std::string, Sample> samples_;
};

// The quantile (in [0, 1]) of the values that a histogram counted between two scrapes, linear
// within a bucket. None if nothing was counted. `before` may be empty: since the start.
std::optional<double> QuantileBetween(const std::vector<std::pair<double, double>>& before,
                                      const std::vector<std::pair<double, double>>& after,
                                      double quantile);

}  // namespace lockstep::cli
