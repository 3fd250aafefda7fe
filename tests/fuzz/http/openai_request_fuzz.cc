// JSON bodies of strangers -> our messages, and an answer to them -> JSON. The first byte chooses
// the endpoint. What is refused is refused with a status that clients know; whatever is said to
// them is JSON.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/dialects/openai/openai_writer.h"
#include "router/http/dialects/openai/text_queries.h"
#include "tests/router/serving/byte_tokenizer.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using ::lockstep::testing::ByteTokenizer;

constexpr uint32_t kMaxSamples = 4;

void CheckJson(std::string_view text) {
  LOCKSTEP_CHECK(nlohmann::json::accept(text), "no JSON: {}", text);
}

void CheckRefusal(const absl::Status& status, const AnswerFormat& format) {
  const OpenAiError error = OpenAiError::Of(status, format.field_names);
  LOCKSTEP_CHECK(error.http_status == 400, "{} for {}", error.http_status, Message(status));
  std::string json;
  error.AppendJson(json);
  CheckJson(json);
}

// Messages as they come of a request: a few tokens, of any kind, for each of its samples.
std::vector<v1::GenerateResponse> Answer(std::string_view seed, uint32_t num_samples) {
  std::vector<v1::GenerateResponse> messages(1);
  messages[0].mutable_prompt_info()->set_prompt_tokens(1);
  v1::TokenLogprob* const first = messages[0].mutable_prompt_info()->add_prompt_logprobs();
  first->set_token_id(ByteTokenizer::kBos);
  for (uint32_t index = 0; index < num_samples; ++index) {
    v1::OutputDelta* const delta = messages.emplace_back().mutable_delta();
    delta->set_index(index);
    for (const char c : seed.substr(0, 8)) {
      const auto id = static_cast<unsigned char>(c);
      delta->add_token_ids(id);
      v1::TokenLogprob* const logprob = delta->add_logprobs();
      logprob->set_token_id(id);
      logprob->set_rank(1);
      logprob->set_logprob(static_cast<float>(id) / -8);
      logprob->add_top_ids(255 - id);
      logprob->add_top_logprobs(-1);
    }
    delta->set_reasoning(std::string(seed.substr(0, 3)));
    for (const uint32_t call : {0u, 1u, 0u}) {
      v1::ToolCallDelta* const part = delta->add_tool_calls();
      part->set_index(call);
      part->set_id(call == 1 ? "call_\"\xff" : "");
      part->set_arguments(std::string(seed.substr(0, 5)));
    }
    v1::Finish* const finish = messages.emplace_back().mutable_finish();
    finish->set_index(index);
    finish->set_reason(v1::FINISH_REASON_STOP);
    finish->set_stop_string("\xff\"");
  }
  return messages;
}

void WriteAnswer(const OpenAiRequest& request, const AnswerFormat& format, std::string_view seed) {
  const ByteTokenizer tokenizer;
  const auto writer = OpenAiWriter::Make(
      {.id = "id", .facts = {.model = "m", .tokenizer = &tokenizer}, .format = &format}, request);
  std::string out;
  for (uint32_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
    writer->Add(prompt, Answer(seed, request.options.num_samples), out);
  }
  writer->Finish(out);
  if (!request.stream) return CheckJson(out);
  constexpr std::string_view kPrefix = "data: ";
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find("\n\n", at);
    LOCKSTEP_CHECK(end != std::string::npos && out.compare(at, kPrefix.size(), kPrefix) == 0,
                   "no event: {}", out.substr(at));
    const std::string_view event(out.data() + at + kPrefix.size(), end - at - kPrefix.size());
    at = end + 2;
    if (event == "[DONE]") {
      LOCKSTEP_CHECK(at == out.size(), "something follows the end");
    } else {
      CheckJson(event);
    }
  }
}

void RunGenerate(std::string_view body, const AnswerFormat& format) {
  const absl::StatusOr<OpenAiRequest> request =
      &format == &ChatFormat() ? ParseChatRequest(body) : ParseCompletionRequest(body);
  if (!request.ok()) return CheckRefusal(request.status(), format);
  LOCKSTEP_CHECK(!request->prompts.empty() && request->prompts.size() <= kMaxPromptsPerRequest,
                 "{} prompts", request->prompts.size());
  // More than that is refused by what comes behind.
  if (request->options.num_samples > kMaxSamples) return;
  WriteAnswer(*request, format, body);
}

void Run(std::string_view input) {
  const std::string_view body = input.substr(1);
  switch (input[0] % 4) {
    case 0:
      return RunGenerate(body, CompletionFormat());
    case 1:
      return RunGenerate(body, ChatFormat());
    case 2:
      if (const auto query = ParseTokenizeRequest(body); !query.ok()) {
        CheckRefusal(query.status(), CompletionFormat());
      }
      return;
    default:
      if (const auto request = ParseDetokenizeRequest(body); !request.ok()) {
        CheckRefusal(request.status(), CompletionFormat());
      }
      return;
  }
}

}  // namespace
}  // namespace lockstep::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0) lockstep::router::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
