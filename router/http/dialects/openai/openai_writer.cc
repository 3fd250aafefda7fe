#include "router/http/dialects/openai/openai_writer.h"

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/text/token_offsets.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr std::string_view kEventBegin = "data: ";
// Approximate size of a chunk with one token, without its beginning.
constexpr size_t kChunkBytes = 128;
constexpr size_t kBytesPerTokenId = 8;  // in JSON

using LogprobPointers = std::vector<const v1::TokenLogprob*>;

std::vector<ToolCallPart> CallsOf(const v1::OutputDelta& delta) {
  std::vector<ToolCallPart> calls;
  for (const v1::ToolCallDelta& call : delta.tool_calls()) {
    calls.push_back({.index = call.index(),
                     .id = call.id(),
                     .name = call.name(),
                     .arguments = call.arguments()});
  }
  return calls;
}

template <typename Entries>
void AppendPointers(const Entries& entries, LogprobPointers& out) {
  for (const v1::TokenLogprob& entry : entries) out.push_back(&entry);
}

// The same entries with at most `num_best` of the best tokens.
std::vector<v1::TokenLogprob> WithBest(
    const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& entries, uint32_t num_best) {
  std::vector<v1::TokenLogprob> cut(entries.begin(), entries.end());
  for (v1::TokenLogprob& entry : cut) {
    const auto size = static_cast<int>(std::min<uint32_t>(entry.top_ids_size(), num_best));
    entry.mutable_top_ids()->Truncate(size);
    entry.mutable_top_logprobs()->Truncate(size);
  }
  return cut;
}

// Server-sent events: one chunk for each new part of a choice.
class StreamWriter final : public OpenAiWriter {
 public:
  StreamWriter(AnswerFrame frame, const OpenAiRequest& request)
      : OpenAiWriter(std::move(frame), request) {
    JsonWriter json(chunk_begin_);
    BeginAnswer(frame_, /*chunk=*/true, json);
  }

  void Finish(std::string& out) override {
    if (frame_.options.include_usage) {
      JsonWriter json = BeginChunk(out);
      json.BeginArray().EndArray().Key("usage");
      WriteUsage(usage_, json);
      json.EndObject();
      out += "\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void Fail(const absl::Status& status, std::string& out) override {
    out += kEventBegin;
    OpenAiError::Of(status, frame_.format->field_names).AppendJson(out);
    out += "\n\ndata: [DONE]\n\n";
  }

 private:
  struct Choice {
    bool begun = false;
    CharacterCounter text;  // of the tokens with log-probabilities
  };

  void AddPart(const v1::OutputDelta* delta, const v1::Finish* finish, uint32_t prompt,
               std::string& out) override {
    const uint32_t index = ChoiceIndex(prompt, delta != nullptr ? delta->index() : finish->index());
    choices_.resize(num_choices());
    Choice& choice = choices_.at(index);
    ChoicePart part{.index = index, .finish = finish};
    std::string text;
    LogprobPointers logprobs;
    std::vector<ToolCallPart> calls;
    if (delta != nullptr && !frame_.options.prompt_only) {
      part.text = delta->text();
      if (frame_.options.include_reasoning) part.reasoning = delta->reasoning();
      calls = CallsOf(*delta);
      part.token_ids = {delta->token_ids().data(), static_cast<size_t>(delta->token_ids_size())};
      AppendPointers(delta->logprobs(), logprobs);
      const bool says_nothing = finish == nullptr && delta->text().empty() && calls.empty() &&
                                logprobs.empty() && !frame_.options.token_ids;
      if (!frame_.options.include_reasoning && !delta->reasoning().empty() && says_nothing) return;
    }
    if (!choice.begun && frame_.options.echo) {
      text = EchoText(prompt) + std::string(part.text);
      part.text = text;
      LogprobPointers all;
      AppendPointers(EchoLogprobs(prompt), all);
      all.insert(all.end(), logprobs.begin(), logprobs.end());
      logprobs = std::move(all);
      part.echo_offsets = EchoOffsets(prompt);
      choice.text = EchoEnd(prompt);
    }
    part.text_before = choice.text;
    if (!choice.begun) part.prompt_token_ids = ToldPromptTokenIds(prompt);
    part.logprobs = logprobs;
    if (frame_.options.logprobs) {
      CountText(frame_, part.logprobs.subspan(part.echo_offsets.size()), choice.text);
    }
    if (!choice.begun && frame_.format->write_first_choice != nullptr) {
      AppendChunk(
          out, [&](JsonWriter& json) { frame_.format->write_first_choice(index, json); },
          [&](JsonWriter& json) { WritePromptTokenIds(ToldPromptTokenIds(prompt), json); },
          // Does not count the output of other choices.
          {.prompt_tokens = usage_.prompt_tokens, .cached_tokens = usage_.cached_tokens});
    }
    AppendParts(part, calls, out);
    choice.begun = true;
  }

  // One chunk, and one more for each further part of a call. Clients that add up chunks may take
  // only one part of a call from each.
  void AppendParts(ChoicePart part, std::span<const ToolCallPart> calls, std::string& out) {
    const v1::Finish* const finish = part.finish;
    for (size_t i = 0; i == 0 || i < calls.size(); ++i) {
      if (i > 0) part = ChoicePart{.index = part.index};
      part.tool_calls = calls.subspan(std::min(i, calls.size()), calls.empty() ? 0 : 1);
      part.finish = i + 1 >= calls.size() ? finish : nullptr;
      AppendChunk(
          out, [&](JsonWriter& json) { frame_.format->write_chunk_choice(frame_, part, json); },
          &WriteNothing, usage_);
    }
  }

  // Writes the common beginning of all chunks, up to the choices.
  JsonWriter BeginChunk(std::string& out) const {
    if (out.empty()) out.reserve(chunk_begin_.size() + kChunkBytes);
    out += kEventBegin;
    out += chunk_begin_;
    return JsonWriter(out);
  }

  static void WriteNothing(JsonWriter&) {}

  template <typename WriteChoice, typename WriteRest>
  void AppendChunk(std::string& out, const WriteChoice& write_choice, const WriteRest& write_rest,
                   const AnswerUsage& usage) {
    JsonWriter json = BeginChunk(out);
    json.BeginArray();
    write_choice(json);
    json.EndArray();
    write_rest(json);
    if (frame_.options.continuous_usage) {
      json.Key("usage");
      WriteUsage(usage, json);
    } else if (frame_.options.include_usage) {
      json.Key("usage").Null();
    }
    json.EndObject();
    out += "\n\n";
  }

  std::string chunk_begin_;
  std::vector<Choice> choices_;
};

// One JSON object at the end.
class WholeWriter final : public OpenAiWriter {
 public:
  WholeWriter(AnswerFrame frame, const OpenAiRequest& request)
      : OpenAiWriter(std::move(frame), request) {}

  void Finish(std::string& out) override {
    JsonWriter json(out);
    BeginAnswer(frame_, /*chunk=*/false, json);
    json.BeginArray();
    for (uint32_t index = 0; index < choices_.size(); ++index) WriteChoice(index, json);
    json.EndArray();
    if (frame_.format->has_one_prompt) {
      WritePromptTokenIds(ToldPromptTokenIds(0), json);
      WritePromptLogprobs(frame_, PromptLogprobs(0), json);
    }
    json.Key("usage");
    WriteUsage(usage_, json);
    json.EndObject();
  }

  void Fail(const absl::Status&, std::string&) override {}

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  struct Choice {
    std::string text;
    std::string reasoning;
    std::vector<Call> calls;
    std::vector<v1::TokenLogprob> logprobs;
    std::vector<uint32_t> token_ids;  // if requested
    v1::Finish finish;
  };

  void AddPart(const v1::OutputDelta* delta, const v1::Finish* finish, uint32_t prompt,
               std::string&) override {
    choices_.resize(num_choices());
    if (delta != nullptr && !frame_.options.prompt_only) {
      Choice& choice = choices_.at(ChoiceIndex(prompt, delta->index()));
      choice.text += delta->text();
      if (frame_.options.include_reasoning) AddReasoning(delta->reasoning(), choice);
      for (const v1::ToolCallDelta& call : delta->tool_calls()) AddCall(call, choice);
      choice.logprobs.insert(choice.logprobs.end(), delta->logprobs().begin(),
                             delta->logprobs().end());
      CountHeld(delta->text(), delta->logprobs());
      if (frame_.options.token_ids) {
        choice.token_ids.insert(choice.token_ids.end(), delta->token_ids().begin(),
                                delta->token_ids().end());
        CountHeld(kBytesPerTokenId * delta->token_ids_size());
      }
    }
    if (finish != nullptr) choices_.at(ChoiceIndex(prompt, finish->index())).finish = *finish;
  }

  void AddReasoning(const std::string& reasoning, Choice& choice) {
    choice.reasoning += reasoning;
    CountHeld(2 * reasoning.size());  // the answer has it twice
  }

  void AddCall(const v1::ToolCallDelta& delta, Choice& choice) {
    if (choice.calls.size() <= delta.index()) choice.calls.resize(delta.index() + size_t{1});
    Call& call = choice.calls[delta.index()];
    call.id += delta.id();
    call.name += delta.name();
    call.arguments += delta.arguments();
    constexpr size_t kBytesPerCall = 96;
    if (!delta.id().empty()) CountHeld(kBytesPerCall);
    CountHeld(delta.id().size() + delta.name().size() + delta.arguments().size());
  }

  void WriteChoice(uint32_t index, JsonWriter& json) const {
    const Choice& choice = choices_[index];
    const uint32_t prompt = index / frame_.options.num_samples;
    ChoicePart part{.index = index,
                    .text = choice.text,
                    .reasoning = choice.reasoning,
                    .token_ids = choice.token_ids,
                    .prompt_token_ids = ToldPromptTokenIds(prompt),
                    .prompt_logprobs = PromptLogprobs(prompt),
                    .finish = &choice.finish};
    std::string text;
    LogprobPointers logprobs;
    if (frame_.options.echo) {
      text = EchoText(prompt) + choice.text;
      part.text = text;
      AppendPointers(EchoLogprobs(prompt), logprobs);
      part.echo_offsets = EchoOffsets(prompt);
      part.text_before = EchoEnd(prompt);
    }
    AppendPointers(choice.logprobs, logprobs);
    part.logprobs = logprobs;
    std::vector<ToolCallPart> calls;
    for (const Call& call : choice.calls) {
      calls.push_back({.index = static_cast<uint32_t>(calls.size()),
                       .id = call.id,
                       .name = call.name,
                       .arguments = call.arguments});
    }
    part.tool_calls = calls;
    frame_.format->write_choice(frame_, part, json);
  }

  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<OpenAiWriter> OpenAiWriter::Make(AnswerFrame frame, const OpenAiRequest& request) {
  frame.options = request.options;
  frame.stream = request.stream;
  if (frame.stream) return std::make_unique<StreamWriter>(std::move(frame), request);
  return std::make_unique<WholeWriter>(std::move(frame), request);
}

OpenAiWriter::OpenAiWriter(AnswerFrame frame, const OpenAiRequest& request)
    : frame_(std::move(frame)), request_(request), prompts_(request.prompts.size()) {}

void OpenAiWriter::Add(uint32_t prompt, std::span<const v1::GenerateResponse> messages,
                       std::string& out) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const v1::GenerateResponse& message = messages[i];
    if (message.has_prompt_info()) AddPromptInfo(prompt, message.prompt_info());
    if (message.has_finish()) AddFinish(nullptr, message.finish(), prompt, out);
    if (!message.has_delta()) continue;
    const v1::OutputDelta& delta = message.delta();
    if (!frame_.options.prompt_only) usage_.completion_tokens += delta.token_ids_size();
    // The last tokens and the end go into one chunk.
    const bool ends = i + 1 < messages.size() && messages[i + 1].has_finish() &&
                      messages[i + 1].finish().index() == delta.index();
    if (ends) {
      AddFinish(&delta, messages[++i].finish(), prompt, out);
    } else {
      AddPart(&delta, nullptr, prompt, out);
    }
  }
}

void OpenAiWriter::AddFinish(const v1::OutputDelta* delta, const v1::Finish& finish,
                             uint32_t prompt, std::string& out) {
  usage_.reasoning_tokens += finish.usage().reasoning_tokens();
  usage_.accepted_draft_tokens += finish.usage().accepted_draft_tokens();
  usage_.rejected_draft_tokens += finish.usage().rejected_draft_tokens();
  AddPart(delta, &finish, prompt, out);
}

void OpenAiWriter::CountHeld(std::string_view text,
                             const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& logprobs) {
  constexpr size_t kBytesPerLogprob = 64;  // a name, a number and punctuation
  num_held_bytes_ += text.size();
  for (const v1::TokenLogprob& entry : logprobs) {
    num_held_bytes_ += kBytesPerLogprob * (1 + static_cast<size_t>(entry.top_ids_size()));
  }
}

void OpenAiWriter::AddPromptInfo(uint32_t prompt, const v1::PromptInfo& info) {
  usage_.prompt_tokens += info.prompt_tokens();
  usage_.cached_tokens += info.cached_tokens();
  Prompt& state = prompts_.at(prompt);
  if (frame_.options.token_ids) {
    state.token_ids.assign(info.prompt_token_ids().begin(), info.prompt_token_ids().end());
    CountHeld(kBytesPerTokenId * state.token_ids.size() * frame_.options.num_samples);
  }
  if (frame_.options.prompt_logprobs.has_value()) {
    state.logprobs.assign(info.prompt_logprobs().begin(), info.prompt_logprobs().end());
    for (uint32_t i = 0; i < frame_.options.num_samples; ++i) CountHeld({}, info.prompt_logprobs());
  }
  if (!frame_.options.echo) return;
  if (frame_.options.logprobs) {
    state.echo_logprobs = WithBest(info.prompt_logprobs(), frame_.options.echo_logprobs);
    CountHeld({}, info.prompt_logprobs());
  }
  const v1::GenerateRequest& request = request_.prompts[prompt];
  if (request.has_text()) {
    state.echo_text = request.text();
  } else {
    const auto& ids = request.token_ids().ids();
    state.echo_text = frame_.facts.tokenizer->Decode(std::vector<TokenId>(ids.begin(), ids.end()),
                                                     frame_.skip_special_tokens);
  }
  if (frame_.options.logprobs) SetEchoOffsets(request, state);
}

void OpenAiWriter::SetEchoOffsets(const v1::GenerateRequest& request, Prompt& state) const {
  if (!request.has_text()) {  // the echo is the tokens' text
    LogprobPointers tokens;
    AppendPointers(state.echo_logprobs, tokens);
    state.echo_offsets = CountText(frame_, tokens, state.echo_end);
    state.echo_end.Finish();
    return;
  }
  std::vector<TokenId> ids;
  for (const v1::TokenLogprob& token : state.echo_logprobs) ids.push_back(token.token_id());
  state.echo_offsets = TokenOffsets(*frame_.facts.tokenizer, state.echo_text, ids);
  state.echo_end.Add(state.echo_text);
}

}  // namespace lockstep::router
