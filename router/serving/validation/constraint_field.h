#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <optional>
#include <string_view>

#include "common/constraints/constraint.h"
#include "lockstep/v1/generation.pb.h"

// The constraint in a client's message. Pure.
namespace lockstep::router {

// The path of the constraint's field, as "sampling.regex"; empty: the message has none.
std::string_view ConstraintPath(const lockstep::v1::SamplingParams& sampling);

// Cheap checks, before the request waits. UNIMPLEMENTED if constraints are not enforced here, and
// for structural tags. INVALID_ARGUMENT for empty texts.
absl::Status CheckConstraintField(const lockstep::v1::SamplingParams& sampling,
                                  bool enforces_constraints);

// The constraint of a message that passed CheckConstraintField; nullopt: it has none.
// INVALID_ARGUMENT for choices that are not UTF-8.
absl::StatusOr<std::optional<Constraint>> ReadConstraint(
    const lockstep::v1::SamplingParams& sampling);

// Bytes of the constraint's text; 0: there is none.
size_t NumConstraintBytes(const lockstep::v1::SamplingParams& sampling);

}  // namespace lockstep::router
