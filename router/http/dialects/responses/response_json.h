#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/dialect.h"
#include "router/http/json/json_writer.h"

// The objects of OpenAI's Responses API.
namespace lockstep::router {

// One item of a response's output.
struct OutputItem {
  enum class Kind { kMessage, kReasoning, kFunctionCall, kCustomCall };
  enum class State { kOpen, kWhole, kCut };

  Kind kind = Kind::kMessage;
  std::string id;
  std::string text;        // of the message or the reasoning; a call's arguments or input
  std::string call_id;     // of a call
  std::string name;        // of a call
  std::string name_space;  // of a call; empty: none
  std::vector<lockstep::v1::TokenLogprob> logprobs;  // of a message, if requested
  State state = State::kOpen;

  bool IsCall() const { return kind == Kind::kFunctionCall || kind == Kind::kCustomCall; }
};

struct ResponseUsage {
  uint64_t input_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t reasoning_tokens = 0;
};

enum class ResponseState { kInProgress, kCompleted, kIncomplete, kFailed };

// The names of OpenAI's API: "in_progress", "completed", ...
std::string_view NameOf(ResponseState state);

struct ResponseError {
  std::string_view code;
  std::string message;
};

// A response at one time.
struct ResponseView {
  const std::string& id;
  const AnswerFacts& facts;
  const std::string& echo;  // ResponsesRequest::echo
  const std::vector<OutputItem>& items;
  ResponseState state = ResponseState::kInProgress;
  std::optional<ResponseUsage> usage = {};
  std::optional<uint64_t> seed = {};
  std::optional<ResponseError> error = {};
};

void WriteResponse(const ResponseView& response, JsonWriter& json);
void WriteOutputItem(const AnswerFacts& facts, const OutputItem& item, JsonWriter& json);
// The one part of a message's or reasoning's content. `empty`: as it is before its text.
void WriteContentPart(const AnswerFacts& facts, const OutputItem& item, bool empty,
                      JsonWriter& json);
// An array.
void WriteOutputLogprobs(const AnswerFacts& facts,
                         const std::vector<lockstep::v1::TokenLogprob>& logprobs, JsonWriter& json);

}  // namespace lockstep::router
