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
#include "worker/steps/constraint_table.h"
#include "worker/steps/drafter.h"
#include "worker/steps/executor_limits.h"
#include "worker/steps/row_result.h"
#include "worker/steps/step_mirror.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

// The logits for the next sampled token, for tests that check bits.
struct LogitsObservation {
  SlotId slot = 0;
  uint32_t position = 0;          // of the token being sampled
  std::span<const float> logits;  // [vocab_size], raw
};

// The StepRunner of the CPU, and of any ForwardModel. Runs a step within Submit, in rounds:
//
//   prepare  validates the step, applies it to the mirror and starts its rows
//   draft    guesses tokens behind the last known ones, for rows that may draft
//   pass     computes the rows' tokens, and logits of the last known one and of each draft
//   choose   samples from the logits, token by token, as far as the drafts were right
//   finish   reports what the rows kept
//
// Draft, pass and choose repeat for each decode iteration. Owns the mirror and the logits buffer.
class CpuStepRunner final : public StepRunner {
 public:
  // `model`, `drafter` and `constraints` must outlive the runner. `limits` must fit the model.
  // Without a drafter the runner announces no drafts, for any `limits`, and without an engine it
  // refuses constraints.
  CpuStepRunner(ForwardModel& model, const ExecutorLimits& limits, uint64_t incarnation,
                Drafter* drafter = nullptr, ConstraintEngine* constraints = nullptr);

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
  // True if a token may be chosen for this position of the slot now. Otherwise the row waits: it
  // keeps no token from there on, and a later step computes its last token again. By default no row
  // waits.
  using MayChoose = std::function<bool(SlotId slot, uint32_t position)>;
  void set_may_choose(MayChoose may_choose) { may_choose_ = std::move(may_choose); }

 private:
  // The state of one row of the current step.
  struct RowState : RowResult {
    uint32_t num_left = 0;  // tokens still to compute in this iteration
    uint32_t draft_limit = 0;
    std::vector<TokenId> drafts;
    v1::PromptLogprobs* prompt_logprobs = nullptr;
  };

  // False if the step is refused.
  bool Prepare(const v1::StepRequest& step, v1::StepResult* result);
  void StartRow(SlotId slot, uint32_t num_tokens, uint32_t draft_limit);
  void Draft();
  // The room that a pass has used so far.
  struct PassUse {
    size_t num_tokens = 0;
    size_t num_logits = 0;
  };
  // Drafts as many tokens as the row's limit, the end of its slot's text and the pass allow.
  void DraftRow(RowState& row, const PassUse& use);
  // Runs passes and choices until every row's tokens are computed once. One pass is enough unless
  // the model has too little room.
  void RunRows(v1::StepResult* result);
  void PassAndChoose(v1::StepResult* result);
  void Pass();
  void Choose(v1::StepResult* result);
  void Finish(v1::StepResult* result);
  void TakeLogits(const LogitsUse& use, std::span<float> logits, v1::StepResult* result);
  // False: a draft before this position was wrong, or the row waits.
  bool MaySample(const LogitsUse& use) const;
  absl::Status SampleRow(const LogitsUse& use, std::span<float> logits);
  // The mask of the slot's next token; null: it has no constraint. Waits for the engine.
  absl::StatusOr<const TokenMask*> MaskOf(SlotId slot);
  absl::Status DescribePromptToken(const LogitsUse& use, std::span<const float> logits,
                                   v1::StepResult* result);

  ForwardModel& model_;
  Drafter* const drafter_;  // null: no drafts
  StepMirror mirror_;
  SlotTable& table_;  // part of mirror_
  ConstraintTable constraints_;
  BatchBuilder builder_;
  SamplerDriver sampler_;
  std::unique_ptr<float[]> logits_;  // [max_logits_rows, vocab_size]
  std::vector<RowState> rows_;  // the step uses the first num_rows_; the rest keep their memory
  size_t num_rows_ = 0;
  StepStats stats_;
  std::deque<std::pair<v1::StepResult, StepStats>> finished_;  // not taken yet
  int64_t last_end_ns_ = 0;                                    // 0: no step of this lease has run
  std::function<void(const LogitsObservation&)> observer_;
  MayChoose may_choose_;
};

}  // namespace lockstep::worker
