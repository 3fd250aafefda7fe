#include "worker/cpu/step_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

CpuStepRunner::CpuStepRunner(ForwardModel& model, const ExecutorLimits& limits,
                             uint64_t incarnation)
    : model_(model),
      mirror_({model.info(), limits}, incarnation),
      table_(mirror_.table()),
      builder_(model.info(), bounds().max_slots),
      sampler_(bounds().vocab_size),
      logits_(std::make_unique_for_overwrite<float[]>(size_t{model.info().max_logits_rows} *
                                                      bounds().vocab_size)),
      rows_(bounds().max_slots) {}

void CpuStepRunner::BeginLease(uint64_t epoch) {
  mirror_.BeginLease(epoch);
  finished_.clear();
  last_end_ns_ = 0;
}

void CpuStepRunner::EndLease() {
  mirror_.EndLease();
  finished_.clear();
}

void CpuStepRunner::Submit(const v1::StepRequest& step) {
  auto& [result, stats] = finished_.emplace_back();
  Execute(step, &result);
  stats = stats_;
}

bool CpuStepRunner::TakeResult(v1::StepResult* result, StepStats* stats) {
  if (finished_.empty()) return false;
  *result = std::move(finished_.front().first);
  *stats = finished_.front().second;
  finished_.pop_front();
  return true;
}

void CpuStepRunner::Execute(const v1::StepRequest& step, v1::StepResult* result) {
  const int64_t start_ns = SteadyNanoseconds();
  stats_ = {};
  if (!mirror_.Accept(step, *result, stats_)) {
    stats_.num_live_slots = table_.CountLive();
    return;
  }
  num_rows_ = 0;
  mirror_.Apply(step, *result, stats_,
                [this](SlotId slot, uint32_t num_tokens) { StartRow(slot, num_tokens); });
  for (uint32_t i = 0; i < std::max(1u, step.decode_iterations()); ++i) RunIteration(result);
  ReportRows(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(num_rows_), *result);
  stats_.num_live_slots = table_.CountLive();

  const int64_t end_ns = SteadyNanoseconds();
  v1::StepTimings* const timings = result->mutable_timings();
  timings->set_compute_ns(static_cast<uint64_t>(end_ns - start_ns));
  timings->set_idle_ns(last_end_ns_ == 0 ? 0 : static_cast<uint64_t>(start_ns - last_end_ns_));
  // A step that runs nothing does not end an idle time.
  if (num_rows_ > 0) last_end_ns_ = end_ns;
}

void CpuStepRunner::StartRow(SlotId slot, uint32_t num_tokens) {
  RowState& row = rows_[num_rows_++];
  row.slot = slot;
  row.num_left = num_tokens;
  row.stopped = false;
  row.sampled.clear();
  row.logprobs.clear();
  row.prompt_logprobs = nullptr;
}

void CpuStepRunner::RunIteration(v1::StepResult* result) {
  builder_.Clear();
  for (size_t i = 0; i < num_rows_; ++i) {
    RowState& row = rows_[i];
    Slot& slot = table_[row.slot];
    // A piece that fails makes the slot inert; the rest of its row is then not computed.
    while (row.num_left > 0 && !slot.inert()) {
      const uint32_t added = builder_.Add(slot, row.slot, static_cast<uint32_t>(i), row.num_left);
      row.num_left -= added;
      if (row.num_left > 0) RunForward(result);
    }
    row.num_left = 1;  // if another iteration follows, the row decodes
  }
  if (!builder_.empty()) RunForward(result);
}

void CpuStepRunner::RunForward(v1::StepResult* result) {
  const ForwardBatch batch = builder_.batch();
  const std::span<const LogitsUse> uses = builder_.logits_uses();
  model_.Forward(batch, {logits_.get(), uses.size() * bounds().vocab_size});
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    table_[builder_.slots()[i]].Advance(batch.rows[i].num_tokens);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    TakeLogits(uses[i], {logits_.get() + i * bounds().vocab_size, bounds().vocab_size}, result);
  }
  builder_.Clear();
}

void CpuStepRunner::TakeLogits(const LogitsUse& use, std::span<float> logits,
                               v1::StepResult* result) {
  Slot& slot = table_[use.slot];
  if (slot.inert()) return;
  const absl::Status status =
      use.samples ? SampleRow(use, logits) : DescribePromptToken(use, logits, result);
  if (status.ok()) return;
  slot.MakeInert();
  ReportError(use.slot, status, *result);
}

absl::Status CpuStepRunner::SampleRow(const LogitsUse& use, std::span<float> logits) {
  if (observer_) observer_({.slot = use.slot, .position = use.position, .logits = logits});
  Slot& slot = table_[use.slot];
  RowState& row = rows_[use.row];
  v1::TokenLogprobs logprobs;
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenId token, sampler_.Sample(slot, logits, &logprobs));
  slot.AppendSampled(token);
  row.sampled.push_back(token);
  if (slot.num_logprobs() >= 0) {
    logprobs.set_slot(use.slot);
    row.logprobs.push_back(std::move(logprobs));
  }
  const bool stop_id = slot.IsStopId(token);
  if (stop_id || slot.num_known() >= slot.max_total()) {
    slot.MakeInert();
    row.stopped = true;
    row.stop_cause = stop_id ? v1::STOP_CAUSE_TOKEN : v1::STOP_CAUSE_LENGTH;
  }
  return absl::OkStatus();
}

absl::Status CpuStepRunner::DescribePromptToken(const LogitsUse& use, std::span<const float> logits,
                                                v1::StepResult* result) {
  const Slot& slot = table_[use.slot];
  RowState& row = rows_[use.row];
  v1::TokenLogprobs entry;
  LOCKSTEP_RETURN_IF_ERROR(sampler_.Describe(logits, slot.known_tokens()[use.position],
                                             slot.num_prompt_logprobs(), &entry));
  entry.set_slot(use.slot);
  if (row.prompt_logprobs == nullptr) {
    row.prompt_logprobs = result->add_prompt_logprobs();
    row.prompt_logprobs->set_slot(use.slot);
    row.prompt_logprobs->set_first_position(use.position);
  }
  *row.prompt_logprobs->add_entries() = std::move(entry);
  return absl::OkStatus();
}

}  // namespace lockstep::worker
