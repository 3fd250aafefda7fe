#pragma once

#include <cstdint>
#include <deque>
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
  };
  Engine(worker::StepRunner& runner, const worker::ForwardModelInfo& info, const Options& options);
  ~Engine();

  // Runs all of it, submitted at once; seconds until the last token is there. Dies if a request
  // does not get all its tokens.
  double Run(std::span<const Work> work);
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
};

}  // namespace lockstep::bench
