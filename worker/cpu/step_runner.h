#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/cpu/sampler_driver.h"
#include "worker/model/forward_model.h"
#include "worker/steps/batch_builder.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/row_result.h"
#include "worker/steps/step_mirror.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// The logits from which a token is about to be sampled, for tests that check bits.
struct LogitsObservation {
  SlotId slot = 0;
  uint32_t position = 0;          // of the token being sampled
  std::span<const float> logits;  // [vocab_size], raw
};

// The StepRunner of the CPU, and of any ForwardModel: validates, applies to the mirror, runs
// forward passes, samples and reports, all within Submit. Owns the mirror and the logits buffer.
class CpuStepRunner final : public StepRunner {
 public:
  // `model` outlives the runner. `limits` must fit the model.
  CpuStepRunner(ForwardModel& model, const ExecutorLimits& limits, uint64_t incarnation);

  void BeginLease(uint64_t epoch) override;
  void EndLease() override;
  void Submit(const v1::StepRequest& step) override;
  size_t num_pending() const override { return finished_.size(); }
  bool TakeResult(v1::StepResult* result, StepStats* stats) override;

  // Submit and TakeResult in one. `result` is overwritten.
  void Execute(const v1::StepRequest& step, v1::StepResult* result);

  const StepStats& last_step() const { return stats_; }
  const StepBounds& bounds() const override { return mirror_.bounds(); }
  void set_logits_observer(std::function<void(const LogitsObservation&)> observer) {
    observer_ = std::move(observer);
  }

 private:
  // Of one row of the step being executed.
  struct RowState : RowResult {
    uint32_t num_left = 0;  // tokens still to compute in this iteration
    v1::PromptLogprobs* prompt_logprobs = nullptr;
  };

  void StartRow(SlotId slot, uint32_t num_tokens);
  // Computes every row's tokens once, in as many forward passes as they need.
  void RunIteration(v1::StepResult* result);
  void RunForward(v1::StepResult* result);
  void TakeLogits(const LogitsUse& use, std::span<float> logits, v1::StepResult* result);
  absl::Status SampleRow(const LogitsUse& use, std::span<float> logits);
  absl::Status DescribePromptToken(const LogitsUse& use, std::span<const float> logits,
                                   v1::StepResult* result);

  ForwardModel& model_;
  StepMirror mirror_;
  SlotTable& table_;  // the mirror's
  BatchBuilder builder_;
  SamplerDriver sampler_;
  std::unique_ptr<float[]> logits_;  // [max_logits_rows, vocab_size]
  std::vector<RowState> rows_;  // the step uses the first num_rows_; the rest keep their memory
  size_t num_rows_ = 0;
  StepStats stats_;
  std::deque<std::pair<v1::StepResult, StepStats>> finished_;  // not taken yet
  int64_t last_end_ns_ = 0;                                    // 0: no step of this lease has run
  std::function<void(const LogitsObservation&)> observer_;
};

}  // namespace lockstep::worker
