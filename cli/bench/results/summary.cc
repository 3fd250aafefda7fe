#include "cli/bench/results/summary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

namespace lockstep::cli {
namespace {

constexpr double kMsPerSecond = 1e3;
// A thread that is busy for more of its time answers late.
constexpr double kBusyThread = 0.8;
// Requests sent later than this after their time were delayed by the generator.
constexpr double kLateMs = 20.0;

double Percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// The common text of failures of one kind. # stands for every number after the first colon.
std::string ErrorKind(const std::string& error) {
  const size_t colon = error.find(": ");
  if (colon == std::string::npos) return error;
  std::string kind = error.substr(0, colon);
  for (size_t i = colon; i < error.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(error[i])) != 0;
    if (!is_digit) kind += error[i];
    if (is_digit && kind.back() != '#') kind += '#';
  }
  return kind;
}

bool Keeps(double value, const std::optional<double>& bound) { return !bound || value <= *bound; }

bool IsGood(const RequestRecord& record, const GoodputBounds& bounds) {
  if (!record.error.empty()) return false;
  const double ttft =
      record.pieces.empty() ? 0.0 : (record.pieces.front() - record.scheduled) * kMsPerSecond;
  return Keeps(ttft, bounds.ttft_ms) &&
         Keeps(TimePerOutputToken(record).value_or(0.0), bounds.tpot_ms) &&
         Keeps((record.end - record.scheduled) * kMsPerSecond, bounds.e2e_ms);
}

// Output tokens that came within the window. A request's tokens count evenly over its pieces.
double TokensWithin(const RequestRecord& record, const MeasuredWindow& window) {
  if (record.pieces.empty()) return 0.0;
  const auto within = std::ranges::count_if(
      record.pieces, [&](double at) { return window.begin <= at && at <= window.end; });
  return static_cast<double>(record.output_tokens) * static_cast<double>(within) /
         static_cast<double>(record.pieces.size());
}

// Latencies of completed requests in milliseconds.
struct LatencySamples {
  std::vector<double> ttft;
  std::vector<double> tpot;
  std::vector<double> itl;
  std::vector<double> e2e;

  void Add(const RequestRecord& record) {
    e2e.push_back((record.end - record.scheduled) * kMsPerSecond);
    if (record.pieces.empty()) return;
    ttft.push_back((record.pieces.front() - record.scheduled) * kMsPerSecond);
    if (const auto time = TimePerOutputToken(record)) tpot.push_back(*time);
    for (size_t i = 1; i < record.pieces.size(); ++i) {
      itl.push_back((record.pieces[i] - record.pieces[i - 1]) * kMsPerSecond);
    }
  }
};

}  // namespace

Distribution Describe(std::vector<double>& samples) {
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  return {.mean = std::accumulate(samples.begin(), samples.end(), 0.0) /
                  static_cast<double>(samples.size()),
          .p50 = Percentile(samples, 0.5),
          .p90 = Percentile(samples, 0.9),
          .p99 = Percentile(samples, 0.99),
          .max = samples.back()};
}

std::optional<double> TimePerOutputToken(const RequestRecord& record) {
  if (record.output_tokens < 2 || record.pieces.size() < 2) return std::nullopt;
  return (record.pieces.back() - record.pieces.front()) * kMsPerSecond / (record.output_tokens - 1);
}

BenchSummary Summarize(std::span<const RequestRecord> records, const MeasuredWindow& window,
                       const GoodputBounds& bounds, const GeneratorCost& cost) {
  BenchSummary summary;
  LatencySamples latencies;
  std::vector<double> late;
  std::map<std::string, std::string> first_errors;  // by kind
  double tokens_within = 0.0;
  double prompt_tokens_within = 0.0;
  uint64_t completed_within = 0;
  uint64_t good = 0;
  uint64_t good_within = 0;
  for (const RequestRecord& record : records) {
    // Requests of the warm-up may still have output within the window.
    tokens_within += TokensWithin(record, window);
    if (record.error.empty() && window.begin <= record.end && record.end <= window.end) {
      ++completed_within;
      prompt_tokens_within += record.prompt_tokens;
      if (IsGood(record, bounds)) ++good_within;
    }
    if (record.scheduled < window.begin || record.cut_off) continue;
    late.push_back((record.sent - record.scheduled) * kMsPerSecond);
    if (IsGood(record, bounds)) ++good;
    if (!record.error.empty()) {
      ++summary.failed;
      const auto first = first_errors.try_emplace(ErrorKind(record.error), record.error).first;
      ++summary.errors[first->second];
      continue;
    }
    ++summary.completed;
    summary.output_tokens += record.output_tokens;
    summary.prompt_tokens += record.prompt_tokens;
    summary.cached_tokens += record.cached_tokens;
    latencies.Add(record);
  }
  summary.seconds = window.end - window.begin;
  if (summary.seconds > 0) {
    summary.requests_per_s = static_cast<double>(completed_within) / summary.seconds;
    summary.output_tokens_per_s = tokens_within / summary.seconds;
    summary.prompt_tokens_per_s = prompt_tokens_within / summary.seconds;
    summary.goodput = static_cast<double>(good_within) / summary.seconds;
  }
  const uint64_t all = summary.completed + summary.failed;
  if (all > 0) summary.good_share = static_cast<double>(good) / static_cast<double>(all);
  summary.ttft_ms = Describe(latencies.ttft);
  summary.tpot_ms = Describe(latencies.tpot);
  summary.itl_ms = Describe(latencies.itl);
  summary.e2e_ms = Describe(latencies.e2e);
  summary.late_ms_p99 = Describe(late).p99;
  if (cost.wall_seconds > 0) summary.cpu_share = cost.cpu_seconds / cost.wall_seconds;
  summary.generator_limits =
      cost.busiest_thread_share > kBusyThread || summary.late_ms_p99 > kLateMs;
  return summary;
}

}  // namespace lockstep::cli
