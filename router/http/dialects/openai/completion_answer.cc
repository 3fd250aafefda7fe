#include <algorithm>
#include <string>
#include <vector>

#include "router/http/dialects/openai/answer_json.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Different tokens may have the same text, but a JSON object has each key once. The chosen token
// comes first.
void WriteTopLogprobs(const AnswerFrame& frame, const v1::TokenLogprob& entry, JsonWriter& json) {
  std::vector<std::string> seen = {TokenString(frame, entry.token_id())};
  json.BeginObject().ForeignKey(seen[0]).Logprob(entry.logprob());
  for (int i = 0; i < entry.top_ids_size(); ++i) {
    std::string token = TokenString(frame, entry.top_ids(i));
    // All invalid UTF-8 looks alike too.
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

void WriteCompletionChoice(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json) {
  json.BeginObject().Key("index").Int(part.index).Key("text").String(part.text);
  WriteTokenIds(frame, part, json);
  json.Key("logprobs");
  frame.options.logprobs ? WriteCompletionLogprobs(frame, part, json) : void(json.Null());
  // Streams have no prompt log-probabilities.
  if (!frame.stream) WritePromptLogprobs(frame, part.prompt_logprobs, json);
  // With prompt_only, the one generated token is left out and cannot end the text.
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

constexpr std::string_view kObject = "text_completion";

}  // namespace

const AnswerFormat& CompletionFormat() {
  static const AnswerFormat kFormat = {.id_prefix = "cmpl-",
                                       .object = kObject,
                                       .chunk_object = kObject,
                                       .field_names = CompletionFieldNames(),
                                       .write_choice = WriteCompletionChoice,
                                       .write_chunk_choice = WriteCompletionChoice,
                                       .write_first_choice = nullptr,
                                       .has_one_prompt = false};
  return kFormat;
}

}  // namespace lockstep::router
