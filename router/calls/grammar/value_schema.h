#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "router/calls/grammar/argument_schema.h"

// Schemas of single values of a tool's arguments. Pure. Include this in few .cc files only.
namespace lockstep::router {

// The schema of one property's value, for %json, with the definitions of `root`. No string and no
// key in the value has the text `tag`; empty: they may have every text. The first character of a
// tag comes once in it. With a tag, the engine refuses values that nest without a bound.
absl::StatusOr<std::string> ValueSchema(const OrderedJson& value, const OrderedJson& root,
                                        std::string_view tag);

// A regular expression of the texts that do not have `tag`, as in ValueSchema.
std::string PatternWithout(std::string_view tag);

}  // namespace lockstep::router
