#include "tests/rigs/instant_worker/paced_runner.h"

#include <algorithm>

#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

namespace wire = worker::v1;

// Texts of a few letters in every byte-level vocabulary: the bytes and early merges.
constexpr TokenId kFirstToken = 33;
constexpr uint32_t kNumTokens = 58;

}  // namespace

PacedRunner::PacedRunner(const worker::ForwardModelInfo& info, const worker::ExecutorLimits& limits,
                         uint64_t incarnation)
    : bounds_(info, limits),
      incarnation_(incarnation),
      table_(bounds_.max_slots, bounds_.num_groups()),
      validator_(bounds_) {}

void PacedRunner::SetStepTime(std::chrono::nanoseconds step_time) {
  MutexLock lock(mutex_);
  step_time_ = step_time;
}

void PacedRunner::Hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void PacedRunner::Release() {
  {
    MutexLock lock(mutex_);
    held_ = false;
  }
  released_.NotifyAll();
}

void PacedRunner::BeginLease(uint64_t epoch) {
  table_.Clear();
  finished_.clear();
  order_ = {.epoch = epoch, .last_step_id = 0, .refusing = false};
}

void PacedRunner::EndLease() {
  table_.Clear();
  finished_.clear();
  order_ = {};
}

void PacedRunner::Submit(const wire::StepRequest& step) {
  auto& [result, stats] = finished_.emplace_back();
  result.set_epoch(order_.epoch);
  result.set_incarnation(incarnation_);
  result.set_step_id(step.step_id());
  if (const absl::Status status = validator_.Check(step, order_, table_); !status.ok()) {
    order_.refusing = true;
    stats.refused = true;
    worker::ReportRefusal(status, result);
    return;
  }
  order_.last_step_id = step.step_id();
  order_.refusing = false;
  if (step.resync()) table_.Clear();
  table_.Apply(step);
  RunRows(step, result, stats);
  if (!rows_.empty()) WaitForEnd();
}

bool PacedRunner::TakeResult(wire::StepResult* result, worker::StepStats* stats) {
  if (finished_.empty()) return false;
  *result = std::move(finished_.front().first);
  *stats = finished_.front().second;
  finished_.pop_front();
  return true;
}

void PacedRunner::RunRows(const wire::StepRequest& step, wire::StepResult& result,
                          worker::StepStats& stats) {
  rows_.clear();
  const std::vector<SlotId>& slots = table_.last_rows();
  for (size_t i = 0; i < slots.size(); ++i) {
    worker::Slot& slot = table_[slots[i]];
    if (slot.inert()) {
      result.add_inert_slots(slots[i]);
      continue;
    }
    const uint32_t bound = step.run_tokens_size() == 0 ? 1 : step.run_tokens(static_cast<int>(i));
    const uint32_t num_uncomputed = slot.num_known() - slot.num_computed();
    ++(num_uncomputed == 1 ? stats.num_decode_rows : stats.num_prefill_rows);
    slot.Advance(std::min(bound, num_uncomputed));
    worker::RowResult& row = rows_.emplace_back();
    row.slot = slots[i];
    if (slot.num_computed() < slot.num_known()) continue;
    const TokenId token = kFirstToken + slot.num_known() % kNumTokens;
    slot.AppendSampled(token);
    row.sampled = {token};
    row.stopped = slot.num_known() >= slot.max_total_tokens();
    row.stop_cause = wire::STOP_CAUSE_LENGTH;
    if (row.stopped) slot.MakeInert();
  }
  stats.num_live_slots = table_.CountLive();
  worker::ReportRows(rows_.begin(), rows_.end(), result);
}

void PacedRunner::WaitForEnd() {
  std::chrono::nanoseconds step_time;
  {
    MutexLock lock(mutex_);
    step_time = step_time_;
  }
  // A step that was here when the one before ended began at that moment, whenever this thread woke
  // up: so the rate is as asked for.
  const TimePoint now = std::chrono::steady_clock::now();
  const bool follows = now - last_end_ < step_time / 4;
  last_end_ = (follows ? last_end_ : now) + step_time;
  if (step_time.count() > 0) PaceUntil(last_end_);
  MutexLock lock(mutex_);
  while (held_) released_.Wait(mutex_);
}

}  // namespace lockstep::bench
