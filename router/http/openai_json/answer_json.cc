#include "router/http/openai_json/answer_json.h"

#include <algorithm>
#include <vector>

#include "router/serving/calls/finish_reason.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using Logprobs = std::span<const v1::TokenLogprob* const>;

std::string TokenString(const AnswerFrame& frame, uint32_t id) {
  if (frame.options.tokens_as_ids) return fmt::format("token_id:{}", id);
  return std::string(frame.tokenizer->TokenBytes(id));
}

// Nothing comes before a prompt's first token, so it has no probability.
bool HasLogprob(const v1::TokenLogprob& entry) { return entry.rank() > 0; }

// What the text has of a token.
std::string_view ShownBytes(const AnswerFrame& frame, uint32_t id) {
  const bool is_hidden = frame.skip_special_tokens && frame.tokenizer->IsSpecial(id);
  return is_hidden ? std::string_view() : frame.tokenizer->TokenBytes(id);
}

size_t CountToken(const AnswerFrame& frame, uint32_t id, CharacterCounter& counter) {
  const std::string_view bytes = ShownBytes(frame, id);
  const size_t place = counter.PlaceOf(bytes);
  counter.Add(bytes);
  return place;
}

// Different tokens may look alike; a JSON object has each key once, the chosen token's first.
void WriteTopLogprobs(const AnswerFrame& frame, const v1::TokenLogprob& entry, JsonWriter& json) {
  std::vector<std::string> seen = {TokenString(frame, entry.token_id())};
  json.BeginObject().ForeignKey(seen[0]).Logprob(entry.logprob());
  for (int i = 0; i < entry.top_ids_size(); ++i) {
    std::string token = TokenString(frame, entry.top_ids(i));
    // What is no UTF-8 is shown alike as well.
    const bool shown = std::any_of(seen.begin(), seen.end(), [&token](const std::string& other) {
      return other == token || (FindInvalidUtf8(other) && FindInvalidUtf8(token));
    });
    if (shown) continue;
    json.ForeignKey(token).Logprob(entry.top_logprobs(i));
    seen.push_back(std::move(token));
  }
  json.EndObject();
}

void WriteCompletionLogprobs(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("text_offset").BeginArray();
  CharacterCounter text = part.text_before;
  for (const uint32_t offset : part.echo_offsets) json.Int(offset);
  for (const v1::TokenLogprob* const entry : part.logprobs.subspan(part.echo_offsets.size())) {
    json.Int(CountToken(frame, entry->token_id(), text));
  }
  json.EndArray().Key("token_logprobs").BeginArray();
  for (const v1::TokenLogprob* const entry : part.logprobs) {
    HasLogprob(*entry) ? json.Logprob(entry->logprob()) : json.Null();
  }
  json.EndArray().Key("tokens").BeginArray();
  for (const v1::TokenLogprob* const entry : part.logprobs) {
    json.String(TokenString(frame, entry->token_id()));
  }
  json.EndArray().Key("top_logprobs").BeginArray();
  for (const v1::TokenLogprob* const entry : part.logprobs) {
    if (HasLogprob(*entry)) {
      WriteTopLogprobs(frame, *entry, json);
    } else {
      json.Null();
    }
  }
  json.EndArray().EndObject();
}

// The members of an object that stays open.
void BeginChatToken(const AnswerFrame& frame, uint32_t id, float logprob, JsonWriter& json) {
  json.BeginObject().Key("token").String(TokenString(frame, id)).Key("logprob").Logprob(logprob);
  json.Key("bytes").BeginArray();
  for (const char byte : frame.tokenizer->TokenBytes(id)) {
    json.Int(static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  json.EndArray();
}

void WriteChatLogprobs(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("content").BeginArray();
  for (const v1::TokenLogprob* const entry : part.logprobs) {
    BeginChatToken(frame, entry->token_id(), entry->logprob(), json);
    json.Key("top_logprobs").BeginArray();
    for (int i = 0; i < entry->top_ids_size(); ++i) {
      BeginChatToken(frame, entry->top_ids(i), entry->top_logprobs(i), json);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("refusal").Null().EndObject();
}

void WriteLogprobs(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.Key("logprobs");
  if (!frame.options.logprobs) {
    json.Null();
  } else if (frame.options.kind == ApiKind::kChat) {
    WriteChatLogprobs(frame, part, json);
  } else {
    WriteCompletionLogprobs(frame, part, json);
  }
}

void WriteIds(std::span<const uint32_t> ids, JsonWriter& json) {
  json.BeginArray();
  for (const uint32_t id : ids) json.Int(id);
  json.EndArray();
}

// Of a choice; null where they are not wanted, as at vLLM.
void WriteTokenIds(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.Key("token_ids");
  frame.options.token_ids ? WriteIds(part.token_ids, json) : void(json.Null());
  // A chat has one prompt, and its answer tells it.
  if (frame.options.kind == ApiKind::kCompletion) WritePromptTokenIds(part.prompt_token_ids, json);
}

void WriteRankedToken(const AnswerFrame& frame, uint32_t id, float logprob, uint32_t rank,
                      JsonWriter& json) {
  json.Key(fmt::format("{}", id)).BeginObject().Key("logprob").Logprob(logprob);
  json.Key("rank").Int(rank).Key("decoded_token").String(frame.tokenizer->TokenBytes(id));
  json.EndObject();
}

void WriteFinish(const v1::Finish* finish, JsonWriter& json) {
  json.Key("finish_reason");
  if (finish == nullptr) {
    json.Null().Key("stop_reason").Null();
    return;
  }
  json.String(FinishReasonName(finish->reason()));
  json.Key("stop_reason");
  switch (finish->matched_case()) {
    case v1::Finish::kStopString:
      json.String(finish->stop_string());
      break;
    case v1::Finish::kStopTokenId:
      json.Int(finish->stop_token_id());
      break;
    case v1::Finish::MATCHED_NOT_SET:
      json.Null();
      break;
  }
  // As a request gives it: negative ones are the upper half.
  if (finish->has_usage()) json.Key("seed").Int(static_cast<int64_t>(finish->usage().seed()));
}

}  // namespace

void CharacterCounter::Add(std::string_view bytes) {
  begun_.append(bytes);
  std::string_view rest = begun_;
  while (!rest.empty()) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    if (unit.kind == Utf8Kind::kIncomplete) break;
    rest.remove_prefix(unit.length);
    ++count_;
  }
  begun_.erase(0, begun_.size() - rest.size());
}

void CharacterCounter::Finish() {
  if (!begun_.empty()) ++count_;
  begun_.clear();
}

size_t CharacterCounter::PlaceOf(std::string_view bytes) const {
  if (begun_.empty() || bytes.empty()) return count_;
  // Bytes that do not go on with the character make it a U+FFFD before the token.
  const std::string text = begun_ + std::string(bytes.substr(0, 1));
  return NextUtf8Unit(text).kind == Utf8Kind::kInvalid ? count_ + 1 : count_;
}

void BeginAnswer(const AnswerFrame& frame, bool chunk, JsonWriter& json) {
  const std::string_view chat = chunk ? "chat.completion.chunk" : "chat.completion";
  const bool is_chat = frame.options.kind == ApiKind::kChat;
  json.BeginObject().Key("id").String(frame.id);
  json.Key("object").String(is_chat ? chat : "text_completion");
  json.Key("created").Int(frame.created_unix_seconds).Key("model").String(frame.model);
  json.Key("system_fingerprint");
  frame.system_fingerprint.empty() ? json.Null() : json.String(frame.system_fingerprint);
  json.Key("choices");
}

void WritePromptTokenIds(std::optional<std::span<const uint32_t>> ids, JsonWriter& json) {
  json.Key("prompt_token_ids");
  ids.has_value() ? WriteIds(*ids, json) : void(json.Null());
}

void WritePromptLogprobs(const AnswerFrame& frame, std::span<const v1::TokenLogprob> entries,
                         JsonWriter& json) {
  json.Key("prompt_logprobs");
  if (!frame.options.prompt_logprobs.has_value()) {
    json.Null();
    return;
  }
  json.BeginArray();
  for (const v1::TokenLogprob& entry : entries) {
    if (!HasLogprob(entry)) {
      json.Null();
      continue;
    }
    json.BeginObject();
    WriteRankedToken(frame, entry.token_id(), entry.logprob(), entry.rank(), json);
    const auto num_best =
        static_cast<int>(std::min<uint32_t>(entry.top_ids_size(), *frame.options.prompt_logprobs));
    for (int i = 0; i < num_best; ++i) {
      if (entry.top_ids(i) == entry.token_id()) continue;
      WriteRankedToken(frame, entry.top_ids(i), entry.top_logprobs(i), i + 1, json);
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteUsage(const AnswerUsage& usage, JsonWriter& json) {
  json.BeginObject().Key("prompt_tokens").Int(usage.prompt_tokens);
  json.Key("completion_tokens").Int(usage.completion_tokens);
  json.Key("total_tokens").Int(usage.prompt_tokens + usage.completion_tokens);
  json.Key("prompt_tokens_details").BeginObject().Key("cached_tokens").Int(usage.cached_tokens);
  json.EndObject().EndObject();
}

void WriteCompletionChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index).Key("text").String(part.text);
  WriteTokenIds(frame, part, json);
  WriteLogprobs(frame, part, json);
  // Streams have none.
  if (!frame.options.stream) WritePromptLogprobs(frame, part.prompt_logprobs, json);
  // The token that was made and left out ends nothing.
  if (frame.options.prompt_only && part.finish != nullptr &&
      part.finish->reason() == v1::FINISH_REASON_STOP) {
    v1::Finish length = *part.finish;
    length.set_reason(v1::FINISH_REASON_LENGTH);
    length.clear_matched();
    WriteFinish(&length, json);
  } else {
    WriteFinish(part.finish, json);
  }
  json.EndObject();
}

void WriteChatChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index);
  json.Key("message").BeginObject().Key("role").String("assistant");
  json.Key("content").String(part.text).Key("refusal").Null().EndObject();
  WriteTokenIds(frame, part, json);
  WriteLogprobs(frame, part, json);
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
  if (part.logprobs.empty()) {
    json.Key("logprobs").Null();
  } else {
    WriteLogprobs(frame, part, json);
  }
  WriteFinish(part.finish, json);
  json.EndObject();
}

std::vector<uint32_t> CountText(const AnswerFrame& frame, Logprobs logprobs,
                                CharacterCounter& counter) {
  std::vector<uint32_t> places;
  for (const v1::TokenLogprob* const entry : logprobs) {
    places.push_back(static_cast<uint32_t>(CountToken(frame, entry->token_id(), counter)));
  }
  return places;
}

}  // namespace lockstep::router
