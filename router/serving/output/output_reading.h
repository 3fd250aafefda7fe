#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <span>

#include "common/ids.h"
#include "lockstep/v1/generation.pb.h"
#include "router/calls/grammar/call_grammar.h"
#include "router/calls/output_parser.h"
#include "router/serving/prompts/served_model.h"

namespace lockstep::router {

// How the output of one request is split into content, reasoning and calls of tools. Immutable. The
// request's samples share it.
struct OutputReading {
  const OutputFormat& format;
  ToolList tools;
  OutputParser::Options options;
  bool single_call = false;  // a whole call ends the output
  // Calls that the output must have. Its grammar is made from the same facts as the parser, so they
  // cannot disagree.
  struct Forced {
    CallGrammarOptions grammar;
    bool named = false;  // the client has named the function
  };
  std::optional<Forced> forced = std::nullopt;
};

// Null: the output is content alone, because the request is no chat, asks for nothing else, or the
// model's format is unknown. `request` has passed CheckRequest, and `prompt` is what it became.
// INVALID_ARGUMENT names the tool. UNIMPLEMENTED: calls cannot be forced in the model's format.
absl::StatusOr<std::shared_ptr<const OutputReading>> ReadingOf(
    const lockstep::v1::GenerateRequest& request, const ServedModel& model,
    std::span<const TokenId> prompt);

}  // namespace lockstep::router
