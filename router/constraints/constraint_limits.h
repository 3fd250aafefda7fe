#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string_view>

#include "common/constraints/constraint.h"

// Bounds of a client's constraint, checked before the engine sees it. Pure.
namespace lockstep::router {

inline constexpr size_t kMaxConstraintBytes = 256 << 10;
inline constexpr size_t kMaxRegexBytes = 4 << 10;  // also of each pattern of a schema
inline constexpr size_t kMaxSchemaDepth = 64;
inline constexpr size_t kMaxSchemaRefs = 256;
inline constexpr size_t kMaxChoices = 10'000;  // also of each enum of a schema

// INVALID_ARGUMENT "path: expected ..., got ...". In a schema the place is a JSON pointer:
// "path: at /properties/a/enum: expected ...". `path` names the constraint's field.
absl::Status CheckConstraintLimits(const Constraint& constraint, std::string_view path);

}  // namespace lockstep::router
