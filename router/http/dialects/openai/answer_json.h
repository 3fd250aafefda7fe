#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/json/json_writer.h"

namespace lockstep::router {

struct AnswerFormat;

// What all objects of an answer have in common.
struct AnswerFrame {
  std::string id;  // "cmpl-..." or "chatcmpl-..."
  AnswerFacts facts;
  const AnswerFormat* format = nullptr;  // never null
  AnswerOptions options = {};
  bool stream = false;
  bool skip_special_tokens = true;
};

// Counts the characters of a text that comes as tokens. A character that spans several tokens
// counts with the last of them, as in the text itself.
class CharacterCounter {
 public:
  void Add(std::string_view bytes);
  // Ends the text. An unfinished character counts as one.
  void Finish();
  size_t count() const { return count_; }
  // The place of a token with these bytes, if it comes next.
  size_t PlaceOf(std::string_view bytes) const;

 private:
  std::string begun_;  // bytes of an unfinished character
  size_t count_ = 0;
};

// A call of a tool. In a chunk of a stream, the next part of one: without id and name, unless it is
// the first.
struct ToolCallPart {
  uint32_t index = 0;
  std::string_view id;
  std::string_view name;
  std::string_view arguments;
};

// One choice of an answer, or the part of it in a chunk of a stream.
struct ChoicePart {
  uint32_t index = 0;
  std::string_view text = {};
  std::string_view reasoning = {};
  std::span<const ToolCallPart> tool_calls = {};
  std::span<const lockstep::v1::TokenLogprob* const> logprobs = {};
  std::span<const uint32_t> token_ids = {};
  std::optional<std::span<const uint32_t>> prompt_token_ids = {};    // if requested
  std::span<const lockstep::v1::TokenLogprob> prompt_logprobs = {};  // of a completion's prompt
  const lockstep::v1::Finish* finish = nullptr;                      // null: not finished
  // The places of the first tokens in `logprobs`, which belong to an echoed prompt.
  std::span<const uint32_t> echo_offsets = {};
  CharacterCounter text_before = {};  // the text before the other log-probabilities
};

// Tokens of a request so far, over all of its prompts and samples.
struct AnswerUsage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t completion_tokens = 0;
  // Of the choices that are finished.
  uint64_t reasoning_tokens = 0;  // of completion_tokens
  uint64_t accepted_draft_tokens = 0, rejected_draft_tokens = 0;
};

// How completions and chats differ in their answers.
struct AnswerFormat {
  std::string_view id_prefix;
  std::string_view object;        // of a whole answer
  std::string_view chunk_object;  // of a chunk of a stream
  FieldNames field_names;         // in errors
  void (*write_choice)(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json);
  void (*write_chunk_choice)(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json);
  // The choice of a chunk before all others of this choice; null: there is no such chunk.
  void (*write_first_choice)(uint32_t index, JsonWriter& json);
  // The answer has one prompt, and has its ids and log-probabilities beside the choices.
  bool has_one_prompt;
};
const AnswerFormat& CompletionFormat();
const AnswerFormat& ChatFormat();

// Writes `{"id": ..., ` up to the key "choices".
void BeginAnswer(const AnswerFrame& frame, bool chunk, JsonWriter& json);
// Writes key and value; the value is null without `ids`.
void WritePromptTokenIds(std::optional<std::span<const uint32_t>> ids, JsonWriter& json);
// Writes key and value in vLLM's form: null for the first token, then the token and the best by id.
// The value is null if they were not requested.
void WritePromptLogprobs(const AnswerFrame& frame,
                         std::span<const lockstep::v1::TokenLogprob> entries, JsonWriter& json);
void WriteUsage(const AnswerUsage& usage, JsonWriter& json);  // writes the value without its key

// Parts of a choice that both formats write.
void WriteTokenIds(const AnswerFrame& frame, const ChoicePart& part, JsonWriter& json);
void WriteFinish(const lockstep::v1::Finish* finish, JsonWriter& json);
std::string TokenString(const AnswerFrame& frame, uint32_t id);
// A token of a chat or a response with the best tokens in its place: {"token":..., "logprob":...,
// "bytes":[...], "top_logprobs":[...]}. `as_ids`: "token_id:17" instead of the token's text.
void WriteTokenWithBest(const Tokenizer& tokenizer, bool as_ids,
                        const lockstep::v1::TokenLogprob& entry, JsonWriter& json);
// Nothing comes before a prompt's first token, so it has no probability.
bool HasLogprob(const lockstep::v1::TokenLogprob& entry);
// Counts the token as part of the text. Returns its place.
size_t CountToken(const AnswerFrame& frame, uint32_t id, CharacterCounter& counter);

// Counts the text of these tokens and returns their places in it.
std::vector<uint32_t> CountText(const AnswerFrame& frame,
                                std::span<const lockstep::v1::TokenLogprob* const> logprobs,
                                CharacterCounter& counter);

}  // namespace lockstep::router
