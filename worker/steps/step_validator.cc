#include "worker/steps/step_validator.h"

#include <algorithm>

#include "common/status.h"
#include "worker/steps/constraint_table.h"
#include "worker/steps/sampling_rules.h"

namespace lockstep::worker {

StepValidator::StepValidator(const StepBounds& bounds)
    : bounds_(bounds),
      checked_slots_(bounds.max_slots),
      has_checked_slot_(bounds.max_slots),
      mentioned_(bounds.max_slots),
      tables_(bounds),
      tokens_(bounds.vocab_size) {}

absl::Status StepValidator::Check(const v1::StepRequest& step, const StepOrder& order,
                                  const SlotTable& table) {
  LOCKSTEP_RETURN_IF_ERROR(CheckOrder(step, order));
  if (step.copied_from_size() > 0 || step.copied_to_size() > 0) {
    return Unimplemented("copied_from: this worker announced no block copies");
  }
  table_ = step.resync() ? nullptr : &table;
  has_checked_slot_.Clear();
  LOCKSTEP_RETURN_IF_ERROR(CheckReleased(step));
  LOCKSTEP_RETURN_IF_ERROR(CheckStarted(step));
  LOCKSTEP_RETURN_IF_ERROR(CheckGrown(step));
  return CheckRows(step);
}

absl::Status StepValidator::CheckOrder(const v1::StepRequest& step, const StepOrder& order) const {
  if (order.epoch == 0) return FailedPrecondition("epoch: no lease is held");
  if (step.has_claim()) {
    return InvalidArgument("claim: belongs in the first message of a stream only");
  }
  if (step.epoch() != order.epoch) {
    return FailedPrecondition("epoch: the lease is {}, the step has {}", order.epoch, step.epoch());
  }
  if (step.resync()) {
    if (step.step_id() > order.last_step_id) return absl::OkStatus();
    return FailedPrecondition("step_id: a resync must come after step {}, got {}",
                              order.last_step_id, step.step_id());
  }
  if (order.refusing) {
    return FailedPrecondition("resync: expected after a refused step, none applied since step {}",
                              order.last_step_id);
  }
  if (step.step_id() != order.last_step_id + 1) {
    return FailedPrecondition("step_id: expected {}, got {}", order.last_step_id + 1,
                              step.step_id());
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckSlotRange(SlotId slot) const {
  if (slot < bounds_.max_slots) return absl::OkStatus();
  return InvalidArgument("slot {} is not below {}", slot, bounds_.max_slots);
}

absl::Status StepValidator::CheckSlotId(SlotId slot) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSlotRange(slot));
  if (!mentioned_.Insert(slot)) return InvalidArgument("slot {} is given twice", slot);
  return absl::OkStatus();
}

StepValidator::CheckedSlot& StepValidator::CheckedSlotOf(SlotId slot) {
  CheckedSlot& checked = checked_slots_[slot];
  if (!has_checked_slot_.Insert(slot)) return checked;
  checked = CheckedSlot{};
  if (table_ == nullptr) return checked;
  const Slot& mirror = (*table_)[slot];
  if (!mirror.occupied()) return checked;
  checked = {.occupied = true,
             .inert = mirror.inert(),
             .num_known = mirror.num_known(),
             .num_computed = mirror.num_computed(),
             .max_unreported = mirror.max_unreported(),
             .max_total_tokens = mirror.max_total_tokens()};
  tables_.Load(slot, mirror);
  return checked;
}

absl::Status StepValidator::CheckReleased(const v1::StepRequest& step) {
  mentioned_.Clear();
  for (int i = 0; i < step.released_slots_size(); ++i) {
    const SlotId slot = step.released_slots(i);
    if (absl::Status status = CheckSlotId(slot); !status.ok()) {
      return Annotate(status, fmt::format("released_slots[{}]", i));
    }
    CheckedSlot& checked = CheckedSlotOf(slot);
    if (!checked.occupied) return InvalidArgument("released_slots[{}]: slot {} is empty", i, slot);
    checked = CheckedSlot{};
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckStarted(const v1::StepRequest& step) {
  mentioned_.Clear();
  for (int i = 0; i < step.started_size(); ++i) {
    const v1::StartedSlot& started = step.started(i);
    absl::Status status = CheckSlotId(started.slot());
    if (status.ok()) status = CheckStartedSlot(started);
    if (!status.ok()) return Annotate(status, fmt::format("started[{}]", i));
    CheckedSlotOf(started.slot()) = {
        .occupied = true,
        .inert = false,
        .num_known = static_cast<uint32_t>(started.known_tokens_size()),
        .num_computed = started.num_computed_tokens(),
        .max_total_tokens = started.sampling().max_total_tokens()};
    tables_.Load(started.slot(), started);
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckKnownTokens(const v1::StartedSlot& started) const {
  const uint32_t num_known = static_cast<uint32_t>(started.known_tokens_size());
  if (num_known == 0) return InvalidArgument("known_tokens: expected at least one");
  for (uint32_t i = 0; i < num_known; ++i) {
    const TokenId token = started.known_tokens(static_cast<int>(i));
    if (token >= bounds_.vocab_size) {
      return InvalidArgument("known_tokens[{}]: token {} is not below the vocabulary size {}", i,
                             token, bounds_.vocab_size);
    }
  }
  if (started.num_prompt_tokens() == 0 || started.num_prompt_tokens() > num_known) {
    return InvalidArgument("num_prompt_tokens: must be in [1, {}], got {}", num_known,
                           started.num_prompt_tokens());
  }
  if (started.num_computed_tokens() >= num_known) {
    return InvalidArgument("num_computed_tokens: must be below the {} known tokens, got {}",
                           num_known, started.num_computed_tokens());
  }
  const uint32_t max_total_tokens = started.sampling().max_total_tokens();
  if (max_total_tokens <= num_known || max_total_tokens > bounds_.max_context_tokens) {
    return InvalidArgument("sampling.max_total_tokens: must be in [{}, {}], got {}",
                           uint64_t{num_known} + 1, bounds_.max_context_tokens, max_total_tokens);
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckPromptLogprobs(const v1::StartedSlot& started) const {
  const uint32_t first = started.first_prompt_logprob();
  if (first == 0) return absl::OkStatus();
  if (started.sampling().num_prompt_logprobs() < 0) {
    return InvalidArgument("first_prompt_logprob: got {}, but num_prompt_logprobs asks for none",
                           first);
  }
  // The logits of the token before `first` must still be computed.
  if (first >= started.num_prompt_tokens() || first <= started.num_computed_tokens()) {
    return InvalidArgument("first_prompt_logprob: must be in [{}, {}), got {}",
                           uint64_t{started.num_computed_tokens()} + 1, started.num_prompt_tokens(),
                           first);
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckStartedSlot(const v1::StartedSlot& started) {
  if (!started.has_sampling()) return InvalidArgument("sampling: missing");
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownTokens(started));
  LOCKSTEP_RETURN_IF_ERROR(tables_.CheckStarted(started));
  LOCKSTEP_RETURN_IF_ERROR(CheckPromptLogprobs(started));
  if (absl::Status status = CheckSampling(started.sampling(), bounds_, tokens_); !status.ok()) {
    return Annotate(status, "sampling");
  }
  if (!started.has_constraint()) return absl::OkStatus();
  if (bounds_.constraint_engine.empty()) {
    return Unimplemented("constraint: this worker has no constraint engine");
  }
  return ReadConstraint(started.constraint()).status();
}

absl::Status StepValidator::CheckGrown(const v1::StepRequest& step) {
  if (step.grown_slots_size() != step.grown_counts_size()) {
    return InvalidArgument("grown_counts: expected {} entries, got {}", step.grown_slots_size(),
                           step.grown_counts_size());
  }
  const bool only_first = step.grown_groups_size() == 0;
  if (!only_first && step.grown_groups_size() != step.grown_slots_size()) {
    return InvalidArgument("grown_groups: expected {} entries or none, got {}",
                           step.grown_slots_size(), step.grown_groups_size());
  }
  uint64_t total = 0;
  for (const uint32_t count : step.grown_counts()) total += count;
  if (total != static_cast<uint64_t>(step.grown_blocks_size())) {
    return InvalidArgument("grown_blocks: expected {} entries, got {}", total,
                           step.grown_blocks_size());
  }
  tables_.BeginGrowth();
  const BlockId* blocks = step.grown_blocks().data();
  for (int i = 0; i < step.grown_slots_size(); ++i) {
    const uint32_t group = only_first ? 0 : step.grown_groups(i);
    if (group >= bounds_.num_groups()) {
      return InvalidArgument("grown_groups[{}]: group {} is not below {}", i, group,
                             bounds_.num_groups());
    }
    const uint32_t count = step.grown_counts(i);
    absl::Status status = CheckGrowth(step.grown_slots(i), group, {blocks, count});
    if (!status.ok()) return Annotate(status, fmt::format("grown_slots[{}]", i));
    blocks += count;
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckGrowth(SlotId slot, uint32_t group,
                                        std::span<const BlockId> blocks) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSlotRange(slot));
  if (!CheckedSlotOf(slot).occupied) return InvalidArgument("slot {} is empty", slot);
  return tables_.CheckGrowth(slot, group, blocks);
}

absl::Status StepValidator::CheckRowCounts(const v1::StepRequest& step, uint32_t iterations) const {
  if (iterations > bounds_.max_decode_iterations) {
    return InvalidArgument("decode_iterations: must be at most {}, got {}",
                           bounds_.max_decode_iterations, iterations);
  }
  if (step.repeat_rows()) {
    if (step.run_slots_size() > 0 || step.run_tokens_size() > 0) {
      return InvalidArgument("repeat_rows: run_slots and run_tokens must be empty");
    }
    if (table_ == nullptr || table_->last_rows().empty()) {
      return InvalidArgument("repeat_rows: the step before has no rows");
    }
    return absl::OkStatus();
  }
  if (step.run_tokens_size() != 0 && step.run_tokens_size() != step.run_slots_size()) {
    return InvalidArgument("run_tokens: expected {} entries or none, got {}", step.run_slots_size(),
                           step.run_tokens_size());
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckDraftLimits(const v1::StepRequest& step) const {
  if (step.draft_limits_size() == 0) return absl::OkStatus();
  if (bounds_.max_draft_tokens == 0) {
    return Unimplemented("draft_limits: this worker announced no drafts");
  }
  if (step.repeat_rows()) {
    return InvalidArgument("draft_limits: must be empty beside repeat_rows");
  }
  if (step.draft_limits_size() != step.run_slots_size()) {
    return InvalidArgument("draft_limits: expected {} entries or none, got {}",
                           step.run_slots_size(), step.draft_limits_size());
  }
  for (int i = 0; i < step.draft_limits_size(); ++i) {
    if (step.draft_limits(i) <= bounds_.max_draft_tokens) continue;
    return InvalidArgument("draft_limits[{}]: must be at most {}, got {}", i,
                           bounds_.max_draft_tokens, step.draft_limits(i));
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckRows(const v1::StepRequest& step) {
  const uint32_t iterations = std::max(1u, step.decode_iterations());
  LOCKSTEP_RETURN_IF_ERROR(CheckRowCounts(step, iterations));
  LOCKSTEP_RETURN_IF_ERROR(CheckDraftLimits(step));
  const bool repeat = step.repeat_rows();
  const int num_rows =
      repeat ? static_cast<int>(table_->last_rows().size()) : step.run_slots_size();
  const uint32_t* limits = step.draft_limits_size() > 0 ? step.draft_limits().data() : nullptr;
  if (repeat && !table_->last_draft_limits().empty()) limits = table_->last_draft_limits().data();
  uint64_t total_tokens = 0;
  mentioned_.Clear();
  for (int i = 0; i < num_rows; ++i) {
    const SlotId slot = repeat ? table_->last_rows()[static_cast<size_t>(i)] : step.run_slots(i);
    const uint32_t num_tokens = step.run_tokens_size() == 0 ? 1 : step.run_tokens(i);
    absl::Status status = CheckSlotId(slot);
    const uint32_t draft_limit = limits == nullptr ? 0 : limits[i];
    if (status.ok()) status = CheckRow(slot, num_tokens, iterations, draft_limit);
    if (!status.ok()) return Annotate(status, fmt::format("run_slots[{}]", i));
    total_tokens += num_tokens;
  }
  if (total_tokens > bounds_.max_step_tokens) {
    return InvalidArgument("run_tokens: {} tokens are more than max_step_tokens {}", total_tokens,
                           bounds_.max_step_tokens);
  }
  return absl::OkStatus();
}

absl::Status StepValidator::CheckRow(SlotId slot, uint32_t num_tokens, uint32_t iterations,
                                     uint32_t draft_limit) {
  const CheckedSlot& checked = CheckedSlotOf(slot);
  if (!checked.occupied) return InvalidArgument("slot {} is empty", slot);
  if (num_tokens == 0) return InvalidArgument("slot {} runs no token", slot);
  if (checked.inert) return absl::OkStatus();
  const uint32_t num_left = checked.num_known - checked.num_computed;
  if (iterations > 1 && (num_left != 1 || num_tokens != 1)) {
    return InvalidArgument("slot {} does not decode, so decode_iterations must be 1, got {}", slot,
                           iterations);
  }
  if (draft_limit > 0 && (num_left != 1 || num_tokens != 1 || iterations > 1)) {
    return InvalidArgument("slot {} does not decode one token, so it cannot draft {}", slot,
                           draft_limit);
  }
  const uint64_t num_actual = std::min(num_tokens, num_left);
  // Each further iteration computes the token that the previous iteration sampled. A draft is
  // computed together with the last token. The token that ends the sequence is not computed.
  const uint64_t end = std::min<uint64_t>(uint64_t{checked.num_computed} + checked.max_unreported +
                                              num_actual + iterations - 1 + draft_limit,
                                          checked.max_total_tokens - 1);
  return tables_.CheckCovers(slot, end);
}

}  // namespace lockstep::worker
