#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "router/core/scheduler.h"
#include "router/core/step.h"
#include "worker/executor/step_runner.h"
#include "worker/model/forward_model.h"

namespace lockstep::bench {

struct Work {
  std::vector<TokenId> prompt;
  uint32_t num_output_tokens = 1;
};

// What the steps of a run took on the device.
struct StepTimes {
  std::vector<double> idle_us;  // device idle before each step but the first
  uint64_t num_steps = 0;
};

// Router and worker in one thread, without sockets: the real scheduler, step codec and runner, as
// many steps in flight as the configuration says. The prefix cache is bypassed and nothing stops
// early.
class Engine {
 public:
  struct Options {
    uint32_t max_steps_in_flight = 2;
    uint32_t max_decode_iterations = 1;
    uint32_t max_running_sequences = 256;
    absl::Duration target_step_time = router::kServingStepTime;
  };
  Engine(worker::StepRunner& runner, const worker::ForwardModelInfo& info, const Options& options);
  ~Engine();

  // Runs all of it, submitted at once; seconds until the last token is there. Dies if a request
  // does not get all its tokens.
  double Run(std::span<const Work> work);
  // What prompts do to others: `streams` decode, and from when all of them do, for `duration`, two
  // prompts of next_prompt() are always there.
  struct Disturbance {
    std::vector<double> gap_ms;  // between two tokens of a stream
    double prompt_tokens_per_s = 0.0;
  };
  Disturbance Disturb(std::span<const Work> streams, const std::function<Work()>& next_prompt,
                      absl::Duration duration);
  const StepTimes& last_times() const { return times_; }
  // Of the latest run, in the order of the work.
  const std::vector<std::vector<TokenId>>& outputs() const { return outputs_; }

 private:
  void Submit(const Work& work);
  void SendSteps();
  void TakeResults();
  // How many requests ended.
  size_t TakeEvents();

  worker::StepRunner& runner_;
  router::Scheduler scheduler_;
  std::deque<router::StepPlan> in_flight_;
  RequestKey next_key_ = 1;
  RequestKey first_key_ = 1;  // of the latest run
  std::vector<std::vector<TokenId>> outputs_;
  StepTimes times_;
  uint64_t num_prefill_tokens_ = 0;  // computed since the engine started
};

}  // namespace lockstep::bench
