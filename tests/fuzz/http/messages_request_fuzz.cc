// JSON bodies of strangers for Anthropic's API -> our messages, and an answer to them -> JSON. What
// is refused is refused with a status that clients know. What the router builds of a body (tools,
// calls, arguments of the template, a schema) is JSON, and so is everything that it says. A count
// of tokens has the same prompt.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/http/dialects/anthropic/messages_dialect.h"
#include "router/http/dialects/anthropic/messages_request.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

void CheckJson(std::string_view text) { LOCKSTEP_CHECK(json::accept(text), "no JSON: {}", text); }

void CheckRefusal(const absl::Status& status) {
  std::string body;
  const HttpHead head = MessagesDialect().WriteError(
      status, {.retry_after = absl::Seconds(1), .request_id = "r"}, body);
  LOCKSTEP_CHECK(head.status == 400, "{} for {}", head.status, Message(status));
  CheckJson(body);
}

void CheckRequest(const v1::GenerateRequest& request) {
  const v1::ChatPrompt& chat = request.chat();
  for (const std::string* const text :
       {&chat.tools_json(), &chat.template_arguments_json(), &request.sampling().json_schema()}) {
    if (!text->empty()) CheckJson(*text);
  }
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    if (!message.tool_calls_json().empty()) {
      for (const json& call : json::parse(message.tool_calls_json())) {
        CheckJson(call["function"]["arguments"].get<std::string>());
      }
    }
    const bool twice =
        i > 0 && message.role() != "tool" && chat.messages(i - 1).role() == message.role();
    LOCKSTEP_CHECK(!twice, "neighbours of role {}", message.role());
  }
}

// Messages as they come of a request, with pieces of the input in every place.
std::vector<v1::GenerateResponse> Answer(std::string_view seed) {
  std::vector<v1::GenerateResponse> messages(1);
  messages[0].mutable_prompt_info()->set_prompt_tokens(3);
  for (size_t i = 0; i + 2 < seed.size() && i < 24; i += 2) {
    const std::string piece(seed.substr(i + 1, 1 + i % 3));
    v1::OutputDelta& delta = *messages.emplace_back().mutable_delta();
    delta.add_token_ids(1);
    switch (static_cast<unsigned char>(seed[i]) % 3) {
      case 0:
        delta.set_reasoning(piece);
        break;
      case 1:
        delta.set_text(piece);
        break;
      default: {
        v1::ToolCallDelta& call = *delta.add_tool_calls();
        call.set_index(static_cast<unsigned char>(seed[i]) % 4);
        call.set_name(piece);
        call.set_arguments(piece);
      }
    }
  }
  v1::Finish& finish = *messages.emplace_back().mutable_finish();
  finish.set_reason(static_cast<v1::FinishReason>(seed.size() % 5));
  if (seed.size() % 2 == 0) finish.set_stop_string("\xff\"");
  return messages;
}

void WriteAnswer(const MessagesRequest& request, std::string_view seed) {
  const auto writer = MessagesDialect().MakeWriter({.model = "m"}, request);
  std::string out;
  writer->Add(0, Answer(seed), out);
  writer->Finish(out);
  if (!request.stream) return CheckJson(out);
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find("\n\n", at);
    const size_t data = out.find("\ndata: ", at);
    LOCKSTEP_CHECK(out.compare(at, 7, "event: ") == 0 && data < end && end != std::string::npos,
                   "no event: {}", out.substr(at));
    CheckJson(std::string_view(out).substr(data + 7, end - data - 7));
    at = end + 2;
  }
}

void Run(std::string_view body) {
  const absl::StatusOr<MessagesRequest> request =
      ParseMessagesRequest(body, {.max_context_tokens = 4096});
  const absl::StatusOr<TokenizeQuery> count = ParseCountTokensRequest(body);
  if (!count.ok()) CheckRefusal(count.status());
  if (!request.ok()) return CheckRefusal(request.status());
  LOCKSTEP_CHECK(count.ok(), "only the count is refused: {}", Message(count.status()));
  LOCKSTEP_CHECK(count->request.chat().SerializeAsString() ==
                     request->prompts.at(0).chat().SerializeAsString(),
                 "another prompt is counted");
  CheckRequest(request->prompts.at(0));
  WriteAnswer(*request, body);
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::router::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
