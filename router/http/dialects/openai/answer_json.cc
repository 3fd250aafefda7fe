#include "router/http/dialects/openai/answer_json.h"

#include <algorithm>
#include <vector>

#include "router/serving/calls/finish_reason.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using Logprobs = std::span<const v1::TokenLogprob* const>;

// The bytes of a token that appear in the text.
std::string_view ShownBytes(const AnswerFrame& frame, uint32_t id) {
  const bool is_hidden = frame.skip_special_tokens && frame.facts.tokenizer->IsSpecial(id);
  return is_hidden ? std::string_view() : frame.facts.tokenizer->TokenBytes(id);
}

void WriteIds(std::span<const uint32_t> ids, JsonWriter& json) {
  json.BeginArray();
  for (const uint32_t id : ids) json.Int(id);
  json.EndArray();
}

void WriteRankedToken(const AnswerFrame& frame, uint32_t id, float logprob, uint32_t rank,
                      JsonWriter& json) {
  json.Key(fmt::format("{}", id)).BeginObject().Key("logprob").Logprob(logprob);
  json.Key("rank").Int(rank).Key("decoded_token").String(frame.facts.tokenizer->TokenBytes(id));
  json.EndObject();
}

std::string TokenText(const Tokenizer& tokenizer, bool as_id, uint32_t id) {
  return as_id ? fmt::format("token_id:{}", id) : std::string(tokenizer.TokenBytes(id));
}

// Writes the members and leaves the object open.
void BeginToken(const Tokenizer& tokenizer, bool as_id, uint32_t id, float logprob,
                JsonWriter& json) {
  json.BeginObject().Key("token").String(TokenText(tokenizer, as_id, id));
  json.Key("logprob").Logprob(logprob).Key("bytes").BeginArray();
  for (const char byte : tokenizer.TokenBytes(id)) {
    json.Int(static_cast<unsigned>(static_cast<unsigned char>(byte)));
  }
  json.EndArray();
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
  // If the bytes do not continue the character, it becomes a U+FFFD before the token.
  const std::string text = begun_ + std::string(bytes.substr(0, 1));
  return NextUtf8Unit(text).kind == Utf8Kind::kInvalid ? count_ + 1 : count_;
}

std::string TokenString(const AnswerFrame& frame, uint32_t id) {
  return TokenText(*frame.facts.tokenizer, frame.options.tokens_as_ids, id);
}

void WriteTokenWithBest(const Tokenizer& tokenizer, bool as_ids, const v1::TokenLogprob& entry,
                        JsonWriter& json) {
  BeginToken(tokenizer, as_ids, entry.token_id(), entry.logprob(), json);
  json.Key("top_logprobs").BeginArray();
  for (int i = 0; i < entry.top_ids_size(); ++i) {
    BeginToken(tokenizer, as_ids, entry.top_ids(i), entry.top_logprobs(i), json);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

bool HasLogprob(const v1::TokenLogprob& entry) { return entry.rank() > 0; }

size_t CountToken(const AnswerFrame& frame, uint32_t id, CharacterCounter& counter) {
  const std::string_view bytes = ShownBytes(frame, id);
  const size_t place = counter.PlaceOf(bytes);
  counter.Add(bytes);
  return place;
}

void BeginAnswer(const AnswerFrame& frame, bool chunk, JsonWriter& json) {
  json.BeginObject().Key("id").String(frame.id);
  json.Key("object").String(chunk ? frame.format->chunk_object : frame.format->object);
  json.Key("created").Int(frame.facts.created_unix_seconds).Key("model").String(frame.facts.model);
  json.Key("system_fingerprint");
  const std::string& fingerprint = frame.facts.system_fingerprint;
  fingerprint.empty() ? json.Null() : json.String(fingerprint);
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
  json.EndObject();
  const bool has_drafts = usage.accepted_draft_tokens + usage.rejected_draft_tokens > 0;
  if (usage.reasoning_tokens > 0 || has_drafts) {
    json.Key("completion_tokens_details").BeginObject();
    if (usage.reasoning_tokens > 0) json.Key("reasoning_tokens").Int(usage.reasoning_tokens);
    if (has_drafts) {
      json.Key("accepted_prediction_tokens").Int(usage.accepted_draft_tokens);
      json.Key("rejected_prediction_tokens").Int(usage.rejected_draft_tokens);
    }
    json.EndObject();
  }
  json.EndObject();
}

// Writes a choice's ids; null if they were not requested, as in vLLM.
void WriteTokenIds(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.Key("token_ids");
  frame.options.token_ids ? WriteIds(part.token_ids, json) : void(json.Null());
  if (!frame.format->has_one_prompt) WritePromptTokenIds(part.prompt_token_ids, json);
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
  // As in requests: the upper half of the seeds is negative.
  if (finish->has_usage()) json.Key("seed").Int(static_cast<int64_t>(finish->usage().seed()));
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
