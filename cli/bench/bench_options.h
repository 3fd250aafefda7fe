#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/plan/workload.h"
#include "cli/bench/results/summary.h"
#include "cli/common/verb.h"
#include "common/net/address.h"
#include "common/sampling_numbers.h"

namespace lockstep::cli {

enum class BenchApi { kCompletions, kChat, kGrpc };
enum class BenchData { kRandom, kShareGpt, kTrace, kScenario };
// The unit of `levels`: streams of a closed loop, requests a second, or the factor on a trace's
// times.
enum class BenchLoop { kClosed, kOpen, kTrace };

struct BenchTarget {
  std::string url;  // as given
  Address address;
};

struct BenchOptions {
  std::vector<BenchTarget> targets;  // one, or two that take turns
  BenchApi api = BenchApi::kCompletions;
  std::string model;  // empty: the server's first
  std::string api_key;
  SamplingNumbers sampling = {.temperature = 0.0f};
  BenchData data = BenchData::kRandom;
  std::string data_name;  // file, or scenario
  RandomWorkload random;
  BenchLoop loop = BenchLoop::kClosed;
  std::vector<double> levels;
  double burstiness = 1.0;
  std::optional<uint64_t> max_requests;
  std::optional<double> max_seconds;
  double warm_up_seconds = 0.0;
  int repeats = 1;
  GoodputBounds bounds;
  double threshold = 0.05;  // for differences between two targets
  uint64_t seed = 1;
  double timeout_seconds = 600.0;
  uint32_t num_threads = 2;
  std::string json_path;  // empty: not written; as the next two
  std::string markdown_path;
  std::string plots_folder;
};

// The command for a report, without the value of --api-key.
std::string CommandText(const Verb& verb, std::span<const std::string> words);

// INVALID_ARGUMENT with all errors.
absl::StatusOr<BenchOptions> ParseBenchOptions(const Verb& verb,
                                               std::span<const std::string> words);

// "ttft:200ms,tpot:25ms,e2e:3s". INVALID_ARGUMENT quoting `text`.
absl::StatusOr<GoodputBounds> ParseGoodputBounds(std::string_view text);

}  // namespace lockstep::cli
