#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <vector>

#include "router/core/messages/scheduler_config.h"
#include "tests/rigs/closed_loop/timed_worker.h"
#include "tests/rigs/random_draws.h"

namespace lockstep::bench {

// Streams in a closed loop: when a request ends, the stream sends the next one.
struct ClosedLoop {
  uint32_t num_streams = 1;
  Range prompt_tokens = {512, 512};
  Range output_tokens = {128, 128};
  // Every prompt begins with one of these prefixes, drawn at random, before its own prompt_tokens.
  // Without prefixes the prefix cache is not used.
  uint32_t num_prefixes = 0;
  uint32_t prefix_tokens = 0;
  // Streams beside them that decode from this context and never end.
  uint32_t num_endless = 0;
  uint32_t endless_context = 512;
  absl::Duration target_step_time = router::kServingStepTime;
  absl::Duration warm_up = absl::Seconds(15);
  absl::Duration duration = absl::Seconds(60);  // virtual, after the warm-up
  uint64_t seed = 1;
  StepCosts costs = {};
};

struct ClosedLoopFigures {
  double output_tokens_per_s = 0.0;
  double prompt_tokens_per_s = 0.0;  // of requests that got their first token
  std::vector<double> first_ms;      // from a request to its first token
  std::vector<double> gap_ms;        // between two tokens of a stream; with endless ones: of those
};

// The router's scheduler with a TimedWorker on a virtual clock, two steps in flight. The same
// options give the same figures. Shows what a rule of the scheduler does to waiting times, without
// a GPU.
ClosedLoopFigures SimulateClosedLoop(const ClosedLoop& loop);

}  // namespace lockstep::bench
