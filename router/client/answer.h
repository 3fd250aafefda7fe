#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/v1/generation.pb.h"

namespace lockstep::router {

// A call of a tool, as far as it came.
struct AnswerCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON, unless the output was cut
};

// One of the n outputs of a request, put together from its deltas.
struct AnswerOutput {
  std::string text;
  std::string reasoning;
  std::vector<AnswerCall> tool_calls;
  std::vector<uint32_t> token_ids;
  std::vector<lockstep::v1::TokenLogprob> logprobs;
  bool finished = false;
  lockstep::v1::Finish finish;

  // For people: a line "call NAME ARGUMENTS" for each call, "" without calls.
  std::string CallLines() const;
};

// Everything that a Generate stream said.
struct Answer {
  lockstep::v1::PromptInfo prompt_info;
  std::vector<AnswerOutput> outputs;  // by index

  // Takes in one message of the stream; indices may come in any order. INTERNAL, and nothing is
  // taken in, if the index is not below `max_outputs`, which is what the request asked for, or if
  // the calls of an output do not come in order.
  absl::Status Add(const lockstep::v1::GenerateResponse& response, uint32_t max_outputs);
  bool complete() const;  // every output seen has finished, and there is one

  // One JSON object over several lines; an array of numbers, as token_ids, takes one of them.
  std::string ToJson(const std::string& model) const;
  // "57 tokens, 48.1 tokens/s, first token after 0.21 s" over all outputs.
  std::string StatsLine() const;
};

}  // namespace lockstep::router
