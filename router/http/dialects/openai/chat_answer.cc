#include "router/http/dialects/openai/answer_json.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

void WriteChatLogprobs(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  for (const v1::TokenLogprob* const entry : part.logprobs) {
    WriteTokenWithBest(*frame.facts.tokenizer, frame.options.tokens_as_ids, *entry, json);
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

// Servers differ in the name, so the answer has both.
void WriteReasoning(std::string_view reasoning, JsonWriter& json) {
  if (reasoning.empty()) return;
  json.Key("reasoning_content").String(reasoning).Key("reasoning").String(reasoning);
}

void WriteToolCalls(const ChoicePart& part, bool with_index, JsonWriter& json) {
  if (part.tool_calls.empty()) return;
  json.Key("tool_calls").BeginArray();
  for (const ToolCallPart& call : part.tool_calls) {
    json.BeginObject();
    if (with_index) json.Key("index").Int(call.index);
    if (!call.id.empty()) json.Key("id").String(call.id).Key("type").String("function");
    json.Key("function").BeginObject();
    if (!call.id.empty()) json.Key("name").String(call.name);
    json.Key("arguments").String(call.arguments).EndObject().EndObject();
  }
  json.EndArray();
}

void WriteChatChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index);
  json.Key("message").BeginObject().Key("role").String("assistant");
  const bool only_calls = part.text.empty() && !part.tool_calls.empty();
  json.Key("content");
  only_calls ? json.Null() : json.String(part.text);
  json.Key("refusal").Null();
  WriteReasoning(part.reasoning, json);
  WriteToolCalls(part, /*with_index=*/false, json);
  json.EndObject();
  WriteTokenIds(frame, part, json);
  json.Key("logprobs");
  frame.options.logprobs ? WriteChatLogprobs(frame, part, json) : void(json.Null());
  WriteFinish(part.finish, json);
  json.EndObject();
}

void WriteChatRoleChunkChoice(uint32_t index, JsonWriter& json) {
  json.BeginObject().Key("index").Int(index);
  json.Key("delta").BeginObject().Key("role").String("assistant").Key("content").String("");
  json.EndObject().Key("logprobs").Null().Key("finish_reason").Null().EndObject();
}

void WriteChatChunkChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index).Key("delta").BeginObject();
  const bool has_more =
      part.finish != nullptr || !part.reasoning.empty() || !part.tool_calls.empty();
  WriteReasoning(part.reasoning, json);
  if (!part.text.empty() || !has_more) json.Key("content").String(part.text);
  WriteToolCalls(part, /*with_index=*/true, json);
  json.EndObject();
  WriteTokenIds(frame, part, json);
  json.Key("logprobs");
  const bool has_logprobs = frame.options.logprobs && !part.logprobs.empty();
  has_logprobs ? WriteChatLogprobs(frame, part, json) : void(json.Null());
  WriteFinish(part.finish, json);
  json.EndObject();
}

}  // namespace

const AnswerFormat& ChatFormat() {
  static const AnswerFormat kFormat = {.id_prefix = "chatcmpl-",
                                       .object = "chat.completion",
                                       .chunk_object = "chat.completion.chunk",
                                       .field_names = ChatFieldNames(),
                                       .write_choice = WriteChatChoice,
                                       .write_chunk_choice = WriteChatChunkChoice,
                                       .write_first_choice = WriteChatRoleChunkChoice,
                                       .has_one_prompt = true};
  return kFormat;
}

}  // namespace lockstep::router
