#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/worker/v1/worker.pb.h"
#include "worker/executor/batch_builder.h"
#include "worker/executor/executor_limits.h"
#include "worker/executor/sampler_driver.h"
#include "worker/executor/slot_table.h"
#include "worker/executor/step_validator.h"
#include "worker/model/forward_model.h"

namespace lockstep::worker {

// The logits a token is about to be sampled from, for whoever checks bits.
struct LogitsObservation {
  SlotId slot = 0;
  uint32_t position = 0;          // of the token being sampled
  std::span<const float> logits;  // [vocab_size], raw
};

// What the latest step was, for metrics.
struct StepStats {
  uint32_t num_prefill_rows = 0;
  uint32_t num_decode_rows = 0;  // one token left to compute, then a sample
  uint32_t num_live_slots = 0;   // after the step
  bool refused = false;
};

// Executes the steps of one lease after the other, synchronously: validates, applies to the mirror,
// runs forward passes, samples, reports. Owns the slot table and the logits buffer. Lives on the
// executor thread. Never chooses what to run, and knows nothing of streams or policy. A step that
// breaks the contract is refused whole, and so is every later one until a resync; a row that fails
// makes its slot inert and nothing else.
class StepExecutor {
 public:
  // `model` outlives the executor. `limits` must fit the model.
  StepExecutor(ForwardModel& model, const ExecutorLimits& limits, uint64_t incarnation);

  // Both drop every slot. Epochs start at 1.
  void BeginLease(uint64_t epoch);
  void EndLease();

  // `result` is overwritten. Of its timings, compute_ns and idle_ns are set.
  void Execute(const v1::StepRequest& step, v1::StepResult* result);

  const StepStats& last_step() const { return stats_; }
  const StepBounds& bounds() const { return bounds_; }
  void set_logits_observer(std::function<void(const LogitsObservation&)> observer) {
    observer_ = std::move(observer);
  }

 private:
  // Of one row of the step being executed.
  struct RowState {
    SlotId slot = 0;
    uint32_t num_left = 0;  // tokens still to compute in this iteration
    bool stopped = false;
    v1::StopCause stop_cause = v1::STOP_CAUSE_UNSPECIFIED;
    std::vector<TokenId> sampled;
    std::vector<v1::TokenLogprobs> logprobs;
    v1::PromptLogprobs* prompt_logprobs = nullptr;
  };

  void Refuse(const absl::Status& status, v1::StepResult* result);
  void CollectRows(const v1::StepRequest& step, v1::StepResult* result);
  // Computes every row's tokens once, in as many forward passes as they need.
  void RunIteration(v1::StepResult* result);
  void RunForward(v1::StepResult* result);
  void TakeLogits(const LogitsUse& use, std::span<float> logits, v1::StepResult* result);
  absl::Status SampleRow(const LogitsUse& use, std::span<float> logits);
  absl::Status DescribePromptToken(const LogitsUse& use, std::span<const float> logits,
                                   v1::StepResult* result);
  void ReportRows(v1::StepResult* result);

  ForwardModel& model_;
  const StepBounds bounds_;
  const uint64_t incarnation_;
  StepOrder order_;
  SlotTable table_;
  StepValidator validator_;
  BatchBuilder builder_;
  SamplerDriver sampler_;
  std::unique_ptr<float[]> logits_;  // [max_logits_rows, vocab_size]
  std::vector<RowState> rows_;       // [num_rows_] are the step's; the rest keep their memory
  size_t num_rows_ = 0;
  StepStats stats_;
  int64_t last_end_ns_ = 0;  // 0: no step of this lease has run
  std::function<void(const LogitsObservation&)> observer_;
};

}  // namespace lockstep::worker
