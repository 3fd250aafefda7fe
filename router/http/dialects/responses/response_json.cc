#include "router/http/dialects/responses/response_json.h"

#include "router/http/dialects/openai/answer_json.h"
#include "router/http/dialects/responses/responses_request.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

std::string_view ItemTypeOf(OutputItem::Kind kind) {
  switch (kind) {
    case OutputItem::Kind::kMessage:
      return "message";
    case OutputItem::Kind::kReasoning:
      return "reasoning";
    case OutputItem::Kind::kFunctionCall:
      return "function_call";
    case OutputItem::Kind::kCustomCall:
      return "custom_tool_call";
  }
  return "";
}

std::string_view ItemStatusOf(OutputItem::State state) {
  switch (state) {
    case OutputItem::State::kOpen:
      return "in_progress";
    case OutputItem::State::kWhole:
      return "completed";
    case OutputItem::State::kCut:
      return "incomplete";
  }
  return "";
}

void WriteResponseUsage(const ResponseUsage& usage, JsonWriter& json) {
  json.BeginObject().Key("input_tokens").Int(usage.input_tokens);
  // Caching a prompt costs nothing here, so no tokens count as written.
  json.Key("input_tokens_details").BeginObject().Key("cached_tokens").Int(usage.cached_tokens);
  json.Key("cache_write_tokens").Int(0).EndObject();
  json.Key("output_tokens").Int(usage.output_tokens);
  json.Key("output_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Int(usage.reasoning_tokens).EndObject();
  json.Key("total_tokens").Int(usage.input_tokens + usage.output_tokens).EndObject();
}

void WriteResponseError(const std::optional<ResponseError>& error, JsonWriter& json) {
  json.Key("error");
  if (!error.has_value()) {
    json.Null();
    return;
  }
  json.BeginObject().Key("code").String(error->code).Key("message").String(error->message);
  json.EndObject();
}

// Where the text is: in a part of the content, or in a member of a call.
void WriteItemText(const AnswerFacts& facts, const OutputItem& item, JsonWriter& json) {
  if (item.kind == OutputItem::Kind::kFunctionCall) {
    json.Key("arguments").String(item.text);
    return;
  }
  if (item.kind == OutputItem::Kind::kCustomCall) {
    json.Key(kCustomInput).String(item.text);
    return;
  }
  json.Key("content").BeginArray();
  if (item.state != OutputItem::State::kOpen) {
    WriteContentPart(facts, item, /*empty=*/false, json);
  }
  json.EndArray();
}

}  // namespace

std::string_view NameOf(ResponseState state) {
  switch (state) {
    case ResponseState::kInProgress:
      return "in_progress";
    case ResponseState::kCompleted:
      return "completed";
    case ResponseState::kIncomplete:
      return "incomplete";
    case ResponseState::kFailed:
      return "failed";
  }
  return "";
}

void WriteOutputLogprobs(const AnswerFacts& facts, const std::vector<v1::TokenLogprob>& logprobs,
                         JsonWriter& json) {
  json.BeginArray();
  for (const v1::TokenLogprob& entry : logprobs) {
    WriteTokenWithBest(*facts.tokenizer, /*as_ids=*/false, entry, json);
  }
  json.EndArray();
}

void WriteContentPart(const AnswerFacts& facts, const OutputItem& item, bool empty,
                      JsonWriter& json) {
  const std::string_view text = empty ? std::string_view() : item.text;
  json.BeginObject();
  if (item.kind == OutputItem::Kind::kReasoning) {
    json.Key("type").String("reasoning_text").Key("text").String(text).EndObject();
    return;
  }
  json.Key("type").String("output_text").Key("annotations").BeginArray().EndArray();
  json.Key("logprobs");
  WriteOutputLogprobs(facts, empty ? std::vector<v1::TokenLogprob>() : item.logprobs, json);
  json.Key("text").String(text).EndObject();
}

void WriteOutputItem(const AnswerFacts& facts, const OutputItem& item, JsonWriter& json) {
  json.BeginObject().Key("id").String(item.id).Key("type").String(ItemTypeOf(item.kind));
  json.Key("status").String(ItemStatusOf(item.state));
  if (item.kind == OutputItem::Kind::kMessage) json.Key("role").String("assistant");
  if (item.kind == OutputItem::Kind::kReasoning) {
    json.Key("summary").BeginArray().EndArray().Key("encrypted_content").Null();
  }
  if (item.IsCall()) {
    json.Key("call_id").String(item.call_id).Key("name").String(item.name);
    if (!item.name_space.empty()) json.Key("namespace").String(item.name_space);
  }
  WriteItemText(facts, item, json);
  json.EndObject();
}

void WriteResponse(const ResponseView& response, JsonWriter& json) {
  const AnswerFacts& facts = response.facts;
  json.BeginObject().Key("id").String(response.id).Key("object").String("response");
  json.Key("created_at").Int(facts.created_unix_seconds);
  json.Key("status").String(NameOf(response.state)).Key("completed_at").Null();
  WriteResponseError(response.error, json);
  json.Key("incomplete_details");
  if (response.state == ResponseState::kIncomplete) {
    json.BeginObject().Key("reason").String("max_output_tokens").EndObject();
  } else {
    json.Null();
  }
  json.Key("model").String(facts.model).Key("output").BeginArray();
  for (const OutputItem& item : response.items) WriteOutputItem(facts, item, json);
  json.EndArray().Raw(response.echo).Key("usage");
  response.usage.has_value() ? WriteResponseUsage(*response.usage, json) : void(json.Null());
  const std::string& fingerprint = facts.system_fingerprint;
  json.Key("system_fingerprint");
  fingerprint.empty() ? json.Null() : json.String(fingerprint);
  json.Key("seed");
  // As in requests: the upper half of the seeds is negative.
  response.seed.has_value() ? json.Int(static_cast<int64_t>(*response.seed)) : json.Null();
  json.EndObject();
}

}  // namespace lockstep::router
