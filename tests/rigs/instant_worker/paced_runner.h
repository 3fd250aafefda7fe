#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "worker/steps/row_result.h"
#include "worker/steps/slot_table.h"
#include "worker/steps/step_runner.h"
#include "worker/steps/step_validator.h"

namespace lockstep::bench {

// A StepRunner without a model: every step takes the same time, which it sleeps, and every row that
// is computed to its end gets a token that depends on its position only. Steps are checked as by
// any worker. No log-probabilities. Set, Hold and Release from any thread.
class PacedRunner final : public worker::StepRunner {
 public:
  PacedRunner(const worker::ForwardModelInfo& info, const worker::ExecutorLimits& limits,
              uint64_t incarnation);

  void SetStepTime(std::chrono::nanoseconds step_time);
  // No step ends until Release.
  void Hold();
  void Release();

  const worker::StepBounds& bounds() const override { return bounds_; }
  void BeginLease(uint64_t epoch) override;
  void EndLease() override;
  void Submit(const worker::v1::StepRequest& step) override;
  size_t num_pending() const override { return finished_.size(); }
  bool TakeResult(worker::v1::StepResult* result, worker::StepStats* stats) override;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void RunRows(const worker::v1::StepRequest& step, worker::v1::StepResult& result,
               worker::StepStats& stats);
  void WaitForEnd();

  const worker::StepBounds bounds_;
  const uint64_t incarnation_;
  worker::StepOrder order_;
  worker::SlotTable table_;
  worker::StepValidator validator_;
  std::vector<worker::RowResult> rows_;
  std::deque<std::pair<worker::v1::StepResult, worker::StepStats>> finished_;
  TimePoint last_end_;

  Mutex mutex_;
  CondVar released_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::nanoseconds step_time_ ABSL_GUARDED_BY(mutex_){0};
};

}  // namespace lockstep::bench
