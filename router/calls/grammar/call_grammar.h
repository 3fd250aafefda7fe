#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/calls/output_format.h"
#include "router/calls/tool_list.h"
#include "router/text/tokenizer/tokenizer.h"

// Grammars of outputs that call tools. Pure.
namespace lockstep::router {

// Of a whole grammar, as of any constraint. Definitions that many properties refer to are repeated
// in it.
inline constexpr size_t kMaxCallGrammarBytes = size_t{256} << 10;

// A tool that the output may call.
struct CallableTool {
  size_t index = 0;  // in the client's list, for errors
  std::string name;
  std::string parameters;  // the JSON schema of the arguments; empty: there are none
};

// The tools of a list in the form of OpenAI's `tools`, which ToolList::Parse has taken. `name`:
// only this one; empty: all.
std::vector<CallableTool> CallableTools(std::string_view tools_json, std::string_view name);

struct CallGrammarOptions {
  bool single = false;  // exactly one call; else one or more
  // The reasoning before the calls.
  enum class Reasoning : uint8_t {
    kNone,
    kOptional,
    kOpen,  // the prompt has begun it
  };
  Reasoning reasoning = Reasoning::kNone;
};

// Whether CallGrammar knows the format.
bool CanForceCalls(const OutputFormat& format);

// A Lark grammar as llguidance 1.9 reads it. OutputParser turns every output that it allows into
// calls of these tools, with arguments that fit their schemas. Only reasoning comes before them.
// New lines may stand around these parts, as templates write them.
// Two bounds of the parser are no part of the grammar: numbers of 1,000 bytes, and 64 levels of
// nesting. `known`: what the parser of the output gets; it holds at least `tools`.
// `tokenizer` says which markers are special tokens.
//
// Errors are INVALID_ARGUMENT or UNIMPLEMENTED, and give the path from the client's list on:
// "[2].function.parameters: ...", or ": ..." about the whole list. CanForceCalls must hold for
// `format`.
absl::StatusOr<std::string> CallGrammar(const OutputFormat& format,
                                        std::span<const CallableTool> tools, const ToolList& known,
                                        const CallGrammarOptions& options,
                                        const Tokenizer& tokenizer);

}  // namespace lockstep::router
