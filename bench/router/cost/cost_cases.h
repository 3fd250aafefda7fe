#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/router/cost/router_process.h"

namespace lockstep::bench {

struct CostOptions {
  std::string router_program;
  std::string worker_program;  // lockstep-instant-worker
  std::string model;
  std::vector<std::string> router_flags;
  uint32_t num_streams = 256;
  uint32_t num_connections = 8;  // of gRPC; every HTTP stream has one of its own
  double steps_per_second = 200.0;
  absl::Duration window;
  double requests_per_second = 1000.0;
  absl::Duration request_step_time;  // of the worker while requests are measured
  uint32_t num_prompt_tokens = 500;  // of these requests
};

// Names that RunCase knows.
std::vector<std::string> CostCases();
// Starts a worker and a router, measures, and prints one JSON object. An error when the counts do
// not add up: a stream that failed, or a number of tokens that nobody asked for.
absl::Status RunCostCase(const CostOptions& options, const std::string& name);

}  // namespace lockstep::bench
