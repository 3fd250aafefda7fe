#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cli/bench/load/transport.h"
#include "cli/bench/results/request_record.h"
#include "cli/bench/results/summary.h"

namespace lockstep::cli {

// How requests follow each other. One of `streams` and `arrival` is set.
struct LoadPlan {
  // Closed loop: this many requests at a time. When one ends, the next is sent.
  uint32_t streams = 0;
  // Open loop: when the i-th request is due, in seconds, ascending; nothing ends the load. Requests
  // do not wait for answers to other requests.
  std::function<std::optional<double>(uint64_t i)> arrival;

  std::function<BenchRequest(uint64_t i)> request;  // the i-th; called by one thread at a time
  uint64_t max_requests = UINT64_MAX;
  double warm_up_seconds = 0.0;
  double max_seconds = 1e9;  // of sending, after the warm-up
};

struct LoadProgress {
  double seconds = 0.0;
  uint64_t sent = 0;
  uint64_t ended = 0;
  uint64_t failed = 0;
  uint64_t output_tokens = 0;  // of requests that ended
};

struct LoadResult {
  std::vector<RequestRecord> records;
  MeasuredWindow window;
  GeneratorCost cost;
  bool interrupted = false;
};

// Runs a load to its end: waits for every request that it sent. Calls `on_progress` a few times a
// second; when it returns false, the load sends nothing more and cancels its open requests.
LoadResult RunLoad(Transport& transport, const LoadClock& clock, const LoadPlan& plan,
                   const std::function<bool(const LoadProgress&)>& on_progress);

}  // namespace lockstep::cli
