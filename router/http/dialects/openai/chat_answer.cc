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

void WriteChatChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index);
  json.Key("message").BeginObject().Key("role").String("assistant");
  json.Key("content").String(part.text).Key("refusal").Null().EndObject();
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
  if (!part.text.empty() || part.finish == nullptr) json.Key("content").String(part.text);
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
