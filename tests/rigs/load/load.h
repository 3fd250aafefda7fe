#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <vector>

#include "router/core/messages/scheduler_config.h"
#include "tests/rigs/load/timed_worker.h"
#include "tests/rigs/random_draws.h"

namespace lockstep::bench {

// Requests that arrive in one of two ways, or in both.
struct Load {
  uint32_t num_streams = 0;     // in a closed loop: when a request ends, its stream sends the next
  double requests_per_s = 0.0;  // more, at random times (Poisson), however many still run
  Range prompt_tokens = {512, 512};
  Range output_tokens = {128, 128};
  // Every prompt begins with one of these prefixes, drawn at random, before its own prompt_tokens.
  // Without prefixes the prefix cache is not used.
  uint32_t num_prefixes = 0;
  uint32_t prefix_tokens = 0;
  // Streams beside them that decode from this context and never end.
  uint32_t num_endless = 0;
  uint32_t endless_context = 512;
  // What a good request keeps to.
  absl::Duration good_first = absl::Milliseconds(200);
  absl::Duration good_per_token = absl::Milliseconds(25);
  // As in SchedulerConfig.
  absl::Duration target_step_time = router::kServingStepTime;
  absl::Duration max_time_per_token = absl::InfiniteDuration();
  absl::Duration max_time_to_first_token = absl::InfiniteDuration();  // without streams
  absl::Duration warm_up = absl::Seconds(15);
  absl::Duration duration = absl::Seconds(60);  // virtual, after the warm-up
  uint32_t window_tokens = 0;                   // of a second KV group; 0: there is none
  uint64_t seed = 1;
  StepCosts costs = {};
};

// Of what happens after the warm-up.
struct LoadFigures {
  double output_tokens_per_s = 0.0;
  double prompt_tokens_per_s = 0.0;  // of requests that got their first token
  std::vector<double> first_ms;      // from a request to its first token
  std::vector<double> gap_ms;        // between two tokens of a stream; with endless ones: of those
  std::vector<double> token_ms;      // of requests that ended: time per token after the first
  double requests_per_s = 0.0;       // that ended; without the refused ones
  double refused_per_s = 0.0;
  double good_requests_per_s = 0.0;  // that ended and kept to both bounds of the load
};

// The router's scheduler with a TimedWorker on a virtual clock, two steps in flight. The same
// options give the same figures. Shows what a rule of the scheduler does to waiting times, without
// a GPU.
LoadFigures Simulate(const Load& load);

}  // namespace lockstep::bench
