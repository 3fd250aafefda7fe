#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "router/core/messages/step.h"
#include "router/core/scheduler.h"
#include "worker/model/forward_model.h"
#include "worker/steps/step_runner.h"

namespace lockstep::bench {

struct Work {
  std::vector<TokenId> prompt;
  uint32_t num_output_tokens = 1;
};

// What one step carried, and how long the device computed it.
struct StepCost {
  uint32_t num_prefill_tokens = 0;
  uint32_t num_decode_tokens = 0;
  double compute_ms = 0.0;
  double idle_ms = 0.0;  // of the device, before it
};

// What the steps of a run took on the device.
struct StepTimes {
  // Each has all steps but the first.
  std::vector<double> idle_us;  // of the device, before the step
  std::vector<double> step_ms;  // this idle time and the step's time on the device
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
    uint32_t max_draft_tokens = 0;  // for every row that decodes
    // Before a step is sent that starts sequences of the latest Run: place in its work, slot.
    std::function<void(size_t, SlotId)> on_start = nullptr;
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
  // A closed loop of `num_streams`: who ends is followed by next(). Figures of the time between
  // `warm_up` and `warm_up + duration`.
  struct Saturation {
    double output_tokens_per_s = 0.0;
    double prompt_tokens_per_s = 0.0;
    std::vector<double> first_ms;  // from the request to its first token
    std::vector<double> gap_ms;    // between two tokens of a stream
    std::vector<StepCost> steps;
  };
  Saturation Saturate(uint32_t num_streams, const std::function<Work()>& next,
                      absl::Duration warm_up, absl::Duration duration);
  const StepTimes& last_times() const { return times_; }
  // Of the latest run, in the order of the work.
  const std::vector<std::vector<TokenId>>& outputs() const { return outputs_; }

 private:
  void Submit(const Work& work);
  void SendSteps();
  void TakeResults();
  // Cancels what was submitted from `first` on, and waits until the device has nothing to do.
  void CancelFrom(RequestKey first);
  // How many requests ended.
  size_t TakeEvents();

  worker::StepRunner& runner_;
  const std::function<void(size_t, SlotId)> on_start_;
  router::Scheduler scheduler_;
  std::deque<router::StepPlan> in_flight_;
  RequestKey next_key_ = 1;
  RequestKey first_key_ = 1;  // of the latest run
  std::vector<std::vector<TokenId>> outputs_;
  StepTimes times_;
  std::vector<StepCost>* step_costs_ = nullptr;  // where to note them, if anywhere
  uint64_t num_prefill_tokens_ = 0;              // computed since the engine started
};

}  // namespace lockstep::bench
