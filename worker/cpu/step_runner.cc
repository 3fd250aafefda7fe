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

StepBounds BoundsOf(const ForwardModelInfo& info, ExecutorLimits limits, const Drafter* drafter,
                    const ConstraintEngine* constraints) {
  if (drafter == nullptr) limits.max_draft_tokens = 0;
  StepBounds bounds(info, limits);
  if (constraints != nullptr) bounds.constraint_engine = constraints->version();
  return bounds;
}

}  // namespace

CpuStepRunner::CpuStepRunner(ForwardModel& model, const ExecutorLimits& limits,
                             uint64_t incarnation, Drafter* drafter, ConstraintEngine* constraints)
    : model_(model),
      drafter_(drafter),
      mirror_(BoundsOf(model.info(), limits, drafter, constraints), incarnation),
      table_(mirror_.table()),
      constraints_(constraints, bounds().max_slots),
      builder_(model.info(), bounds().max_slots),
      sampler_(bounds().vocab_size),
      logits_(std::make_unique_for_overwrite<float[]>(size_t{model.info().max_logits_rows} *
                                                      bounds().vocab_size)),
      rows_(bounds().max_slots) {}

void CpuStepRunner::BeginLease(uint64_t epoch) {
  mirror_.BeginLease(epoch);
  constraints_.Clear();
  finished_.clear();
  last_end_ns_ = 0;
}

void CpuStepRunner::EndLease() {
  mirror_.EndLease();
  constraints_.Clear();
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
  if (!Prepare(step, result)) return;
  for (uint32_t i = 0; i < std::max(1u, step.decode_iterations()); ++i) {
    Draft();
    RunRows(result);
  }
  Finish(result);

  const int64_t end_ns = SteadyNanoseconds();
  v1::StepTimings* const timings = result->mutable_timings();
  timings->set_compute_ns(static_cast<uint64_t>(end_ns - start_ns));
  timings->set_idle_ns(last_end_ns_ == 0 ? 0 : static_cast<uint64_t>(start_ns - last_end_ns_));
  // A step that runs nothing does not end an idle time.
  if (num_rows_ > 0) last_end_ns_ = end_ns;
}

bool CpuStepRunner::Prepare(const v1::StepRequest& step, v1::StepResult* result) {
  num_rows_ = 0;
  if (!mirror_.Accept(step, *result, stats_)) {
    stats_.num_live_slots = table_.CountLive();
    return false;
  }
  constraints_.Apply(step);
  mirror_.Apply(step, *result, stats_,
                [this](SlotId slot, uint32_t num_tokens, uint32_t draft_limit) {
                  StartRow(slot, num_tokens, draft_limit);
                });
  return true;
}

void CpuStepRunner::Finish(v1::StepResult* result) {
  ReportRows(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(num_rows_), *result);
  stats_.num_live_slots = table_.CountLive();
}

void CpuStepRunner::StartRow(SlotId slot, uint32_t num_tokens, uint32_t draft_limit) {
  RowState& row = rows_[num_rows_++];
  row.slot = slot;
  row.num_left = num_tokens;
  row.draft_limit = draft_limit;
  row.drafts.clear();
  row.num_drafted = 0;
  row.stopped = false;
  row.sampled.clear();
  row.logprobs.clear();
  row.prompt_logprobs = nullptr;
}

void CpuStepRunner::Draft() {
  if (drafter_ == nullptr) return;
  // Rows share the room left in one pass: drafts never cause another pass.
  size_t num_tokens = 0;
  for (size_t i = 0; i < num_rows_; ++i) num_tokens += rows_[i].num_left;
  size_t num_logits = num_rows_;
  for (size_t i = 0; i < num_rows_; ++i) {
    RowState& row = rows_[i];
    if (row.draft_limit == 0 || table_[row.slot].inert()) continue;
    DraftRow(row, {.num_tokens = num_tokens, .num_logits = num_logits});
    num_tokens += row.drafts.size();
    num_logits += row.drafts.size();
  }
}

void CpuStepRunner::DraftRow(RowState& row, const PassUse& use) {
  const Slot& slot = table_[row.slot];
  const ForwardModelInfo& info = model_.info();
  row.drafts.clear();
  if (use.num_tokens >= info.max_step_tokens || use.num_logits >= info.max_logits_rows) return;
  // The last token of a sequence is sampled, so it need not be drafted.
  const auto limit = static_cast<uint32_t>(std::min<size_t>(
      {row.draft_limit, slot.max_total_tokens() - slot.num_known() - 1,
       info.max_step_tokens - use.num_tokens, info.max_logits_rows - use.num_logits}));
  if (limit == 0) return;
  drafter_->Draft(slot, limit, row.drafts);
  if (row.drafts.size() > limit) row.drafts.resize(limit);
  const auto outside = std::ranges::find_if(
      row.drafts, [this](TokenId token) { return token >= bounds().vocab_size; });
  row.drafts.erase(outside, row.drafts.end());
  row.num_drafted = static_cast<uint32_t>(row.drafts.size());
}

void CpuStepRunner::RunRows(v1::StepResult* result) {
  builder_.Clear();
  for (size_t i = 0; i < num_rows_; ++i) {
    RowState& row = rows_[i];
    Slot& slot = table_[row.slot];
    // A piece that fails makes the slot inert; the rest of its row is then not computed.
    while (row.num_left > 0 && !slot.inert()) {
      const uint32_t added =
          builder_.Add(slot, row.slot, static_cast<uint32_t>(i), row.num_left, row.drafts);
      row.num_left -= added;
      if (row.num_left > 0) PassAndChoose(result);
    }
    row.num_left = 1;  // if another iteration follows, the row decodes
  }
  if (!builder_.empty()) PassAndChoose(result);
}

void CpuStepRunner::PassAndChoose(v1::StepResult* result) {
  Pass();
  Choose(result);
  builder_.Clear();
}

// A slot's last known token counts as computed only when a token is chosen from its logits. So a
// waiting row computes it again.
void CpuStepRunner::Pass() {
  const ForwardBatch batch = builder_.batch();
  model_.Forward(batch, {logits_.get(), batch.logits_tokens.size() * bounds().vocab_size});
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    Slot& slot = table_[builder_.slots()[i]];
    const uint32_t num_before_last = slot.num_known() - 1 - slot.num_computed();
    slot.Advance(std::min(batch.rows[i].num_tokens, num_before_last));
  }
}

void CpuStepRunner::Choose(v1::StepResult* result) {
  const std::span<const LogitsUse> uses = builder_.logits_uses();
  for (size_t i = 0; i < uses.size(); ++i) {
    TakeLogits(uses[i], {logits_.get() + i * bounds().vocab_size, bounds().vocab_size}, result);
  }
}

void CpuStepRunner::TakeLogits(const LogitsUse& use, std::span<float> logits,
                               v1::StepResult* result) {
  Slot& slot = table_[use.slot];
  if (slot.inert() || (use.samples && !MaySample(use))) return;
  const absl::Status status =
      use.samples ? SampleRow(use, logits) : DescribePromptToken(use, logits, result);
  if (status.ok()) return;
  slot.MakeInert();
  ReportError(use.slot, status, *result);
}

// A draft's logits count only if the draft became the slot's last known token.
bool CpuStepRunner::MaySample(const LogitsUse& use) const {
  const Slot& slot = table_[use.slot];
  if (slot.num_known() != use.position || slot.known_tokens().back() != use.input) return false;
  return !may_choose_ || may_choose_(use.slot, use.position);
}

absl::Status CpuStepRunner::SampleRow(const LogitsUse& use, std::span<float> logits) {
  if (observer_) observer_({.slot = use.slot, .position = use.position, .logits = logits});
  Slot& slot = table_[use.slot];
  RowState& row = rows_[use.row];
  v1::TokenLogprobs logprobs;
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenMask* const mask, MaskOf(use.slot));
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenId token, sampler_.Sample(slot, mask, logits, &logprobs));
  slot.Advance(1);
  slot.AppendSampled(token);
  row.sampled.push_back(token);
  if (slot.num_logprobs() >= 0) {
    logprobs.set_slot(use.slot);
    row.logprobs.push_back(std::move(logprobs));
  }
  const bool stop_id = slot.IsStopId(token);
  if (stop_id || slot.num_known() >= slot.max_total_tokens()) {
    slot.MakeInert();
    row.stopped = true;
    row.stop_cause = stop_id ? v1::STOP_CAUSE_TOKEN : v1::STOP_CAUSE_LENGTH;
  }
  return absl::OkStatus();
}

absl::StatusOr<const TokenMask*> CpuStepRunner::MaskOf(SlotId slot) {
  if (!constraints_.Constrains(slot)) return nullptr;
  const int64_t start_ns = SteadyNanoseconds();
  const uint64_t restarts_before = constraints_.num_restarts();
  absl::StatusOr<const TokenMask*> mask = constraints_.Mask(slot, table_[slot]);
  stats_.mask_ns += static_cast<uint64_t>(SteadyNanoseconds() - start_ns);
  stats_.num_masks += 1;
  stats_.num_engine_restarts +=
      static_cast<uint32_t>(constraints_.num_restarts() - restarts_before);
  return mask;
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
