#include "router/http/dialects/anthropic/message_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/json/json_text.h"

namespace lockstep::router {
namespace {

bool IsObjectText(std::string_view text) {
  const std::string compact = CompactJson(text);
  return compact.starts_with('{') && nlohmann::json::accept(compact);
}

}  // namespace

void BeginMessage(const MessageFrame& frame, JsonWriter& json) {
  json.BeginObject().Key("id").String(fmt::format("msg_{}", frame.request_id));
  json.Key("type").String("message").Key("role").String("assistant");
  json.Key("model").String(frame.model).Key("content");
}

void WriteStop(const MessageStop* stop, JsonWriter& json) {
  json.Key("stop_reason");
  stop == nullptr ? json.Null() : json.String(stop->reason);
  json.Key("stop_sequence");
  stop == nullptr || !stop->sequence.has_value() ? json.Null() : json.String(*stop->sequence);
}

void WriteMessageUsage(const MessageUsage& usage, JsonWriter& json) {
  // Tokens from the cache do not count as input_tokens in this API.
  json.BeginObject().Key("input_tokens").Int(usage.prompt_tokens - usage.cached_tokens);
  json.Key("cache_creation_input_tokens").Int(0);
  json.Key("cache_read_input_tokens").Int(usage.cached_tokens);
  json.Key("output_tokens").Int(usage.output_tokens);
  if (usage.thinking_tokens > 0) {
    json.Key("output_tokens_details").BeginObject();
    json.Key("thinking_tokens").Int(usage.thinking_tokens).EndObject();
  }
  json.EndObject();
}

bool IsBrokenCall(const MessageBlock& block) {
  return block.kind == MessageBlockKind::kToolUse && !block.text.empty() &&
         !IsObjectText(block.text);
}

void WriteBlock(const MessageBlock& block, JsonWriter& json) {
  json.BeginObject().Key("type");
  switch (block.kind) {
    case MessageBlockKind::kThinking:
      // Clients expect a signature. Nothing here checks it.
      json.String("thinking").Key("thinking").String(block.text).Key("signature").String("");
      break;
    case MessageBlockKind::kText:
      json.String("text").Key("text").String(block.text);
      break;
    case MessageBlockKind::kToolUse:
      json.String("tool_use").Key("id").String(block.id).Key("name").String(block.name);
      json.Key("input").Raw(IsObjectText(block.text) ? CompactJson(block.text) : "{}");
      break;
  }
  json.EndObject();
}

void WriteBlockDelta(MessageBlockKind kind, std::string_view piece, JsonWriter& json) {
  json.BeginObject().Key("type");
  switch (kind) {
    case MessageBlockKind::kThinking:
      json.String("thinking_delta").Key("thinking");
      break;
    case MessageBlockKind::kText:
      json.String("text_delta").Key("text");
      break;
    case MessageBlockKind::kToolUse:
      json.String("input_json_delta").Key("partial_json");
      break;
  }
  json.String(piece).EndObject();
}

}  // namespace lockstep::router
