#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <span>
#include <string_view>

#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// How a family of models writes calls of tools and reasoning. A row of a table; immutable, and
// lives as long as the program. output_format_table.h says what each column means.
struct OutputFormat;

// The name that flags, logs and GetModel use: "hermes", "qwen3_coder", "llama3", "mistral", ...
std::string_view NameOf(const OutputFormat& format);
// True: calls of tools, or reasoning, can be found in the output.
bool HasCalls(const OutputFormat& format);
bool HasReasoning(const OutputFormat& format);
// Whether a prompt that ends with `tail` (its last characters, special tokens spelled out) leaves
// reasoning open.
bool LeavesReasoningOpen(const OutputFormat& format, std::string_view tail);
// Whether it ends with the end of reasoning: the template has decided that there is none.
bool HasEndedReasoning(const OutputFormat& format, std::string_view tail);

// NOT_FOUND lists the names that there are.
absl::StatusOr<const OutputFormat*> FindOutputFormat(std::string_view name);
// The format of a model: the markers that its template's text mentions and its vocabulary has.
// Null: none is known.
const OutputFormat* DetectOutputFormat(const Tokenizer& tokenizer);

}  // namespace lockstep::router
