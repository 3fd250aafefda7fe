#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/results/request_record.h"

// Figures of a load, computed from its clients' records. Pure.
namespace lockstep::cli {

// Of a set of samples; all 0 without samples.
struct Distribution {
  double mean = 0.0;
  double p50 = 0.0;
  double p90 = 0.0;
  double p99 = 0.0;
  double max = 0.0;
};
// Reorders the samples. A percentile is the smallest sample that is not below this share of them.
Distribution Describe(std::vector<double>& samples);

// Upper bounds of a good answer, in milliseconds.
struct GoodputBounds {
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};
  std::optional<double> e2e_ms = {};
};

struct MeasuredWindow {
  double begin = 0.0;  // requests that are due before are warm-up
  double end = 0.0;    // tokens that come later do not count as throughput
};

// CPU that the load generator itself used.
struct GeneratorCost {
  double cpu_seconds = 0.0;
  double wall_seconds = 0.0;
  double busiest_thread_share = 0.0;  // of one core
};

struct BenchSummary {
  double seconds = 0.0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  // Failures by kind, under the first error of the kind. Errors that differ only in numbers are of
  // one kind.
  std::map<std::string, uint64_t> errors;
  double requests_per_s = 0.0;
  double output_tokens_per_s = 0.0;
  double prompt_tokens_per_s = 0.0;
  uint64_t output_tokens = 0;  // of the completed requests, as the next two
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  Distribution ttft_ms;  // until the first piece of output
  Distribution tpot_ms;  // between the first and the last piece, for each token after the first
  Distribution itl_ms;   // between pieces of output
  Distribution e2e_ms;
  double good_share = 1.0;        // of the requests, failed ones included; 1 without bounds
  double goodput = 0.0;           // good requests a second
  double late_ms_p99 = 0.0;       // of sending, after the due time
  double cpu_share = 0.0;         // of one core, of the generator
  bool generator_limits = false;  // the figures may show the generator's limits, not the server's
};

BenchSummary Summarize(std::span<const RequestRecord> records, const MeasuredWindow& window,
                       const GoodputBounds& bounds, const GeneratorCost& cost);

// Time of a completed request's tokens after the first, in ms; nothing for fewer than two tokens.
std::optional<double> TimePerOutputToken(const RequestRecord& record);

}  // namespace lockstep::cli
