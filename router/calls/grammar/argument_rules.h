#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "router/calls/grammar/call_grammar.h"
#include "router/calls/grammar/lark_text.h"
#include "router/calls/output_format_table.h"

// The rules of one tool's arguments, for each way to write them. Pure.
namespace lockstep::router {

// What the rules of a tool are made from and added to. The references must outlive it.
struct ArgumentContext {
  const OutputFormat& format;
  const CallableTool& tool;
  size_t number;  // of the tool in the grammar, which makes the names of rules unique
  const ToolList& known;
  const Tokenizer& tokenizer;
  LarkRules& rules;
};

// Adds rules for the tool's arguments and returns the expression for them. Errors have no path.
//
// One JSON object.
absl::StatusOr<std::string> AddJsonArguments(const ArgumentContext& context);
// Tags around keys and values (ArgumentStyle::kParameters). Strings are plain text, other values
// JSON. Properties come in the order of the schema, and no others. A new line may come before tags.
// The parser decides by the schema what a text is, so texts are left out that it would read as
// another value.
absl::StatusOr<std::string> AddTaggedArguments(const ArgumentContext& context);
// Keyword arguments in Python's syntax, "a=1, b=\"x\"". Values are JSON, except that true and false
// are written as in Python where they are a whole value.
absl::StatusOr<std::string> AddPythonArguments(const ArgumentContext& context);

// A rule for at most one new line.
inline constexpr std::string_view kLineRule = "line";

}  // namespace lockstep::router
