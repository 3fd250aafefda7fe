#pragma once

#include <absl/status/statusor.h>

#include <set>
#include <string>
#include <string_view>

namespace lockstep::router {

// A Jinja template, checked and rewritten for the template library.
struct TemplateScan {
  // The same template without white space control and comments of its own; lines are kept.
  std::string source;
  // Names used only as functions or filters, macros left out.
  std::set<std::string> callables;
};

// INVALID_ARGUMENT, with the line, for what would make the library overflow its stack, divide by
// zero, read out of bounds, leak or loop: deep nesting, long operator chains, divisors that are not
// constants, slices with bounds and a step, recursive loops, call blocks, macros inside loops or
// macros, macros used as values; and by name for statements that it lacks. Other syntax errors are
// left to it.
absl::StatusOr<TemplateScan> ScanTemplate(std::string_view source);

}  // namespace lockstep::router
