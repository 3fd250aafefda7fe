#include "worker/steps/constraint_table.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <span>
#include <utility>

#include "common/status.h"

namespace lockstep::worker {
namespace {

// A mask is tried again after the engine ended, but not for ever: the constraint may be the cause.
constexpr uint32_t kMaxEnds = 2;

std::optional<ConstraintKind> KindOf(v1::SlotConstraint::Kind kind) {
  switch (kind) {
    case v1::SlotConstraint::JSON_SCHEMA:
      return ConstraintKind::kJsonSchema;
    case v1::SlotConstraint::JSON_OBJECT:
      return ConstraintKind::kJsonObject;
    case v1::SlotConstraint::REGEX:
      return ConstraintKind::kRegex;
    case v1::SlotConstraint::CHOICE:
      return ConstraintKind::kChoice;
    case v1::SlotConstraint::GRAMMAR:
      return ConstraintKind::kGrammar;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<Constraint> ReadConstraint(const v1::SlotConstraint& message) {
  const std::optional<ConstraintKind> kind = KindOf(message.kind());
  if (!kind) {
    return InvalidArgument("constraint.kind: {} is unknown", static_cast<int>(message.kind()));
  }
  return Constraint{.kind = *kind, .text = message.text()};
}

ConstraintTable::ConstraintTable(ConstraintEngine* engine, uint32_t max_slots)
    : engine_(engine), slots_(max_slots) {}

void ConstraintTable::Clear() {
  for (SlotId slot = 0; slot < slots_.size(); ++slot) Drop(slot);
}

void ConstraintTable::Apply(const v1::StepRequest& step) {
  if (engine_ == nullptr) return;
  if (step.resync()) Clear();
  for (const SlotId slot : step.released_slots()) Drop(slot);
  for (const v1::StartedSlot& started : step.started()) {
    Drop(started.slot());
    if (!started.has_constraint()) continue;
    // The step was accepted, so the constraint can be read.
    slots_[started.slot()] = {.constrained = true,
                              .constraint = *ReadConstraint(started.constraint())};
  }
}

// If the engine is gone, the next mask finds that out.
void ConstraintTable::Drop(SlotId slot) {
  Entry& entry = slots_[slot];
  if (entry.begun) engine_->Release(slot).IgnoreError();
  if (entry.constrained) entry = {};
}

absl::StatusOr<const TokenMask*> ConstraintTable::Mask(SlotId id, const Slot& slot) {
  Entry& entry = slots_[id];
  for (;;) {
    const absl::Status status = TryMask(id, slot);
    if (status.ok()) {
      entry.num_ends = 0;
      return &mask_;
    }
    if (absl::IsInvalidArgument(status)) return Internal("constraint: {}", Message(status));
    spdlog::warn("the constraint engine ended over slot {}: {}", id, Message(status));
    LOCKSTEP_RETURN_IF_ERROR(Restart());
    if (++entry.num_ends == kMaxEnds) {
      return Internal("constraint: the engine ended {} times over it: {}", kMaxEnds,
                      Message(status));
    }
  }
}

absl::Status ConstraintTable::TryMask(SlotId id, const Slot& slot) {
  Entry& entry = slots_[id];
  const std::span<const TokenId> known = slot.known_tokens();
  if (!entry.begun) {
    LOCKSTEP_RETURN_IF_ERROR(engine_->Begin(id, entry.constraint, slot.params().stop_token_ids,
                                            known.subspan(slot.num_prompt())));
    entry.begun = true;
    entry.num_sent = slot.num_known();
  }
  LOCKSTEP_RETURN_IF_ERROR(engine_->Mask(id, known.subspan(entry.num_sent), mask_));
  entry.num_sent = slot.num_known();
  return absl::OkStatus();
}

absl::Status ConstraintTable::Restart() {
  for (Entry& entry : slots_) entry.begun = false;
  ++num_restarts_;
  const absl::Status status = engine_->Restart();
  if (status.ok()) return absl::OkStatus();
  return Internal("constraint: the engine cannot be started again: {}", Message(status));
}

}  // namespace lockstep::worker
