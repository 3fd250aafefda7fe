// JSON bodies of strangers -> our messages of a response, and an answer to them -> JSON. What is
// refused is refused with a status that clients know. Whatever is said to them is JSON.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/http/dialects/responses/responses_dialect.h"
#include "router/http/dialects/responses/responses_request.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ::lockstep::testing::ByteTokenizer;

constexpr size_t kMaxAnsweredBytes = 200;

void CheckJson(std::string_view text) {
  LOCKSTEP_CHECK(nlohmann::json::accept(text), "no JSON: {}", text);
}

void CheckRefusal(const absl::Status& status) {
  std::string json;
  const HttpHead head =
      ResponsesDialect().WriteError(status, {.retry_after = absl::Seconds(1)}, json);
  LOCKSTEP_CHECK(head.status == 400 || head.status == 404, "{} for {}", head.status,
                 Message(status));
  CheckJson(json);
}

// An output of all kinds, with the body's bytes as text and as arguments, in pieces of any size.
std::vector<v1::GenerateResponse> AnswerOf(const ResponsesRequest& request, std::string_view seed) {
  std::vector<v1::GenerateResponse> messages(1);
  messages[0].mutable_prompt_info()->set_prompt_tokens(1);
  uint32_t num_calls = 0;
  for (size_t at = 0; at < seed.size();) {
    const auto kind = static_cast<unsigned char>(seed[at]);
    const std::string piece(seed.substr(at, 1 + kind % 7));
    at += piece.size();
    v1::OutputDelta* const delta = messages.emplace_back().mutable_delta();
    delta->add_token_ids(kind);
    v1::TokenLogprob* const logprob = delta->add_logprobs();
    logprob->set_token_id(kind);
    logprob->add_top_ids(255 - kind);
    logprob->add_top_logprobs(-1);
    if (kind % 5 == 0) delta->set_reasoning(piece);
    if (kind % 5 < 2) delta->set_text(piece);
    if (kind % 5 < 2) continue;
    v1::ToolCallDelta* const call = delta->add_tool_calls();
    if (kind % 5 == 2 || num_calls == 0) {
      call->set_id("c");
      call->set_name(request.tools.empty() ? piece : request.tools[0].flat_name);
      ++num_calls;
    }
    call->set_index(num_calls - 1);
    call->set_arguments(piece);
  }
  v1::Finish* const finish = messages.emplace_back().mutable_finish();
  finish->set_reason(static_cast<v1::FinishReason>(seed.size() % 5));
  return messages;
}

std::string WrittenBy(const ResponsesRequest& request,
                      const std::vector<v1::GenerateResponse>& messages) {
  const ByteTokenizer tokenizer;
  const auto writer =
      ResponsesDialect().MakeWriter({.model = "m", .tokenizer = &tokenizer}, request);
  std::string out;
  writer->Add(0, messages, out);
  writer->Finish(out);
  return out;
}

// Checks every event, and returns the response of the last.
nlohmann::json LastResponse(std::string_view stream) {
  constexpr std::string_view kData = "\ndata: ";
  nlohmann::json event;
  for (size_t number = 0; !stream.empty(); ++number) {
    const size_t data = stream.find(kData);
    const size_t end = stream.find("\n\n");
    LOCKSTEP_CHECK(stream.starts_with("event: ") && data < end && end != std::string_view::npos,
                   "no event: {}", stream);
    event = nlohmann::json::parse(stream.substr(data + kData.size(), end - data - kData.size()));
    LOCKSTEP_CHECK(event["sequence_number"] == number, "event {} is not the next one", number);
    LOCKSTEP_CHECK(stream.substr(7, data - 7) == event["type"].get<std::string>(), "{}", stream);
    stream.remove_prefix(end + 2);
  }
  return event["response"];
}

void Run(std::string_view body) {
  absl::StatusOr<ResponsesRequest> request = ParseResponsesRequest(body);
  if (!request.ok()) return CheckRefusal(request.status());
  LOCKSTEP_CHECK(request->prompts.size() == 1, "{} prompts", request->prompts.size());
  const v1::ChatPrompt& chat = request->prompts[0].chat();
  if (!chat.tools_json().empty()) CheckJson(chat.tools_json());
  if (!chat.template_arguments_json().empty()) CheckJson(chat.template_arguments_json());
  for (const v1::ChatMessage& message : chat.messages()) {
    if (!message.tool_calls_json().empty()) CheckJson(message.tool_calls_json());
  }
  const auto messages = AnswerOf(*request, body.substr(0, kMaxAnsweredBytes));
  request->stream = false;
  const std::string whole = WrittenBy(*request, messages);
  CheckJson(whole);
  request->stream = true;
  LOCKSTEP_CHECK(LastResponse(WrittenBy(*request, messages)) == nlohmann::json::parse(whole),
                 "the stream ends otherwise than {}", whole);
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::router::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
