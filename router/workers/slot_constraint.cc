#include "router/workers/slot_constraint.h"

namespace lockstep::router {
namespace {

worker::v1::SlotConstraint::Kind WireKindOf(ConstraintKind kind) {
  using Message = worker::v1::SlotConstraint;
  switch (kind) {
    case ConstraintKind::kJsonSchema:
      return Message::JSON_SCHEMA;
    case ConstraintKind::kJsonObject:
      return Message::JSON_OBJECT;
    case ConstraintKind::kRegex:
      return Message::REGEX;
    case ConstraintKind::kChoice:
      return Message::CHOICE;
    case ConstraintKind::kGrammar:
      return Message::GRAMMAR;
  }
  return Message::KIND_UNSPECIFIED;  // a worker refuses it
}

}  // namespace

void EncodeConstraint(const Request& request, worker::v1::StartedSlot* out) {
  if (!request.constraint) return;
  const Constraint& constraint = request.constraint->constraint;
  out->mutable_constraint()->set_kind(WireKindOf(constraint.kind));
  out->mutable_constraint()->set_text(constraint.text);
}

}  // namespace lockstep::router
