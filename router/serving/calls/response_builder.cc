#include "router/serving/calls/response_builder.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"
#include "router/serving/output/tool_call_id.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Keeps a message far below 4 MiB, which gRPC clients accept by default. This holds even with 20
// log-probabilities per token and long tokens.
constexpr size_t kMaxTokensPerMessage = 1024;

v1::FinishReason WireReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAborted:
      return v1::FINISH_REASON_ABORT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// Why an output that the model has ended is over. A client that named the function expects STOP:
// it knows of the call.
v1::FinishReason ReasonOf(const OutputReading& reading, uint32_t num_calls) {
  const bool named = reading.forced && reading.forced->named;
  return num_calls > 0 && !named ? v1::FINISH_REASON_TOOL_CALLS : v1::FINISH_REASON_STOP;
}

void FillLogprob(const TokenLogprobs& in, v1::TokenLogprob* out) {
  out->set_token_id(in.token);
  out->set_logprob(in.logprob);
  out->set_rank(in.rank);
  for (const auto& [id, logprob] : in.top) {
    out->add_top_ids(id);
    out->add_top_logprobs(logprob);
  }
}

// True: the only call that is allowed has ended. Parts behind it are dropped.
bool AddParts(std::vector<OutputPart> parts, bool single_call, PartMessages& out,
              std::vector<v1::GenerateResponse>& messages) {
  for (OutputPart& part : parts) {
    if (single_call && part.kind == OutputPart::Kind::kCallEnd) return true;
    out.Add(std::move(part), messages);
  }
  return false;
}

// `parts` came of a token, and `after` is the state behind it. `waits`: it has characters that are
// not whole.
v1::TokenPart PartOf(const std::vector<OutputPart>& parts, const OutputParser& after, bool waits) {
  const auto is_content = [](const OutputPart& part) {
    return part.kind == OutputPart::Kind::kContent && !part.text.empty();
  };
  if (std::ranges::any_of(parts, is_content)) return v1::TOKEN_PART_TEXT;
  if (after.in_reasoning()) return v1::TOKEN_PART_OTHER;
  return waits || after.in_text() ? v1::TOKEN_PART_OPEN : v1::TOKEN_PART_OTHER;
}

void MoveLastToken(v1::OutputDelta& from, v1::OutputDelta& to) {
  const bool has_logprob = from.logprobs_size() == from.token_ids_size();
  to.add_token_ids(*from.token_ids().rbegin());
  from.mutable_token_ids()->RemoveLast();
  if (!has_logprob) return;
  *to.add_logprobs() = std::move(*from.mutable_logprobs()->rbegin());
  from.mutable_logprobs()->RemoveLast();
}

}  // namespace

TextOptions TextOptions::Of(const v1::GenerateRequest& request) {
  TextOptions options;
  options.stop_strings.assign(request.stop().stop().begin(), request.stop().stop().end());
  options.include_stop = request.stop().include_stop();
  options.skip_special_tokens =
      !request.output().has_skip_special_tokens() || request.output().skip_special_tokens();
  options.prompt_token_ids = request.output().prompt_token_ids();
  return options;
}

ResponseBuilder::ResponseBuilder(const Tokenizer& tokenizer, std::shared_ptr<const Request> request,
                                 const TextOptions& options)
    : tokenizer_(tokenizer),
      request_(std::move(request)),
      include_stop_(options.include_stop),
      skip_special_tokens_(options.skip_special_tokens),
      prompt_token_ids_(options.prompt_token_ids),
      num_unfinished_(request_->num_samples) {
  samples_.reserve(request_->num_samples);
  for (uint32_t i = 0; i < request_->num_samples; ++i) {
    samples_.push_back(
        {.detokenizer = IncrementalDetokenizer(tokenizer, options.skip_special_tokens),
         .matcher = StopMatcher(options.stop_strings, options.include_stop)});
    if (options.reading == nullptr) continue;
    const auto id_of = [request = request_, &format = options.reading->format, i](uint32_t call) {
      return ToolCallId(format, *request, i, call);
    };
    samples_.back().parts = std::make_unique<Parts>(
        Parts{.splitter = OutputSplitter(options.reading), .messages = PartMessages(i, id_of)});
    if (!options.stop_strings.empty() && request_->sampling.num_logprobs >= 0) {
      samples_.back().parts->ahead = std::make_unique<OutputSplitter>(options.reading);
    }
  }
}

void ResponseBuilder::Consume(RequestOutput output, Instant now,
                              std::vector<v1::GenerateResponse>& messages,
                              std::vector<uint32_t>& stopped) {
  if (end_.has_value()) return;
  if (output.start.has_value()) {
    start_ = *output.start;
    started_ = true;
  }
  if (output.prompt_logprobs.has_value()) prompt_logprobs_ = std::move(output.prompt_logprobs);
  const bool wants_prompt_logprobs = request_->sampling.num_prompt_logprobs >= 0;
  const bool info_complete = started_ && (!wants_prompt_logprobs || prompt_logprobs_.has_value());
  // If a sequence ended before anything ran, PromptInfo has nothing more to wait for.
  if (!prompt_info_sent_ && (info_complete || !output.samples.empty())) AddPromptInfo(messages);

  for (SampleOutput& sample : output.samples) {
    AddTokens(sample, now, messages, stopped);
    if (sample.end.has_value()) AddEnd(sample.sample_index, *sample.end, messages);
  }
  // All samples are finished, so the call is OK even if the engine reports an error. After an
  // abort, the status comes with the engine's end.
  if (num_unfinished_ == 0 && !any_aborted_) {
    end_ = absl::OkStatus();
  } else if (output.end.has_value()) {
    end_ = std::move(output.end);
  }
}

void ResponseBuilder::AddPromptInfo(std::vector<v1::GenerateResponse>& messages) {
  prompt_info_sent_ = true;
  v1::PromptInfo* const info = messages.emplace_back().mutable_prompt_info();
  info->set_request_id(request_->id);
  info->set_prompt_tokens(static_cast<uint32_t>(request_->prompt_tokens.size()));
  info->set_cached_tokens(start_.num_cached_tokens);
  if (prompt_token_ids_) {
    info->mutable_prompt_token_ids()->Add(request_->prompt_tokens.begin(),
                                          request_->prompt_tokens.end());
  }
  if (!prompt_logprobs_.has_value()) return;
  info->add_prompt_logprobs()->set_token_id(request_->prompt_tokens[0]);
  for (const TokenLogprobs& entry : *prompt_logprobs_) {
    FillLogprob(entry, info->add_prompt_logprobs());
  }
  prompt_logprobs_.reset();
}

void ResponseBuilder::AddTokens(SampleOutput& output, Instant now,
                                std::vector<v1::GenerateResponse>& messages,
                                std::vector<uint32_t>& stopped) {
  Sample& sample = samples_.at(output.sample_index);
  if (sample.finished) return;  // tokens computed after a stop string
  sample.first_token_at = std::min(sample.first_token_at, output.first_token_at);
  sample.num_drafted += output.num_drafted;
  sample.num_accepted_drafts += output.num_accepted_drafts;
  for (size_t i = 0; i < output.tokens.size();) {
    messages.emplace_back().mutable_delta()->set_index(output.sample_index);
    const size_t last = std::min(output.tokens.size(), i + kMaxTokensPerMessage);
    for (; i < last; ++i) {
      v1::OutputDelta* const delta = messages.back().mutable_delta();
      delta->add_token_ids(output.tokens[i]);
      if (i < output.logprobs.size()) FillLogprob(output.logprobs[i], delta->add_logprobs());
      ++sample.num_tokens;
      const EarlyEnd end = sample.parts == nullptr
                               ? AddTokenText(sample, output.tokens[i], messages)
                               : AddTokenParts(sample, output.tokens[i], messages);
      if (!end.call && !end.stop_string.has_value()) continue;
      v1::Finish* const finish =
          AddFinish(output.sample_index, v1::FINISH_REASON_STOP, now, messages);
      if (!end.call) finish->set_stop_string(sample.matcher.stop_string(*end.stop_string));
      stopped.push_back(output.sample_index);
      return;
    }
  }
}

// Stop ids are masked while they must not end the sequence. So a sampled stop id did end it.
bool ResponseBuilder::IsSilentEnd(TokenId token) const {
  const std::vector<TokenId>& stop_ids = request_->sampling.stop_token_ids;
  return !include_stop_ && std::binary_search(stop_ids.begin(), stop_ids.end(), token);
}

ResponseBuilder::EarlyEnd ResponseBuilder::AddTokenText(
    Sample& sample, TokenId token, std::vector<v1::GenerateResponse>& messages) const {
  if (IsSilentEnd(token)) return {};
  const std::string piece = sample.detokenizer.Push(token);
  if (piece.empty()) return {};
  const StopMatcher::Output out = sample.matcher.Push(piece, MayStop(sample));
  *messages.back().mutable_delta()->mutable_text() += out.text;
  return {.stop_string = out.matched};
}

ResponseBuilder::EarlyEnd ResponseBuilder::AddTokenParts(
    Sample& sample, TokenId token, std::vector<v1::GenerateResponse>& messages) const {
  OutputSplitter& splitter = sample.parts->splitter;
  OutputSplitter* const ahead = sample.parts->ahead.get();
  const OutputParser& state = ahead == nullptr ? splitter.parser() : ahead->parser();
  const size_t place = messages.size() - 1;  // of the token
  const bool was_reasoning = splitter.parser().in_reasoning();
  const std::string_view special =
      tokenizer_.IsSpecial(token) ? tokenizer_.TokenBytes(token) : std::string_view();
  EarlyEnd end;
  bool waits = false;
  std::vector<OutputPart> parts;
  std::vector<OutputPart> parts_ahead;
  if (IsSilentEnd(token)) {
    // The end of the sequence tells the parser as much.
  } else if (!special.empty() && skip_special_tokens_) {
    splitter.AddHiddenSpecial(special);
    splitter.Take("", parts);
    if (ahead != nullptr) {
      ahead->AddHiddenSpecial(special);
      ahead->Take("", parts_ahead);
    }
  } else if (const std::string piece = sample.detokenizer.Push(token); !piece.empty()) {
    splitter.AddText(piece, special);
    const StopMatcher::Output out = sample.matcher.Push(piece, MayStop(sample));
    splitter.Take(out.text, parts);
    end.stop_string = out.matched;
    if (ahead != nullptr) {
      ahead->AddText(piece, special);
      ahead->Take(piece, parts_ahead);
    }
  } else {
    waits = true;
  }
  v1::OutputDelta* const delta = messages[place].mutable_delta();
  if (delta->logprobs_size() == delta->token_ids_size()) {
    delta->mutable_logprobs()->rbegin()->set_part(
        PartOf(ahead == nullptr ? parts : parts_ahead, state, waits));
  }
  if (end.stop_string.has_value()) splitter.Finish(parts);
  if (was_reasoning || splitter.parser().in_reasoning()) ++sample.parts->num_reasoning_tokens;
  end.call =
      AddParts(std::move(parts), splitter.reading().single_call, sample.parts->messages, messages);
  if (messages.size() - 1 > place) {
    MoveLastToken(*messages[place].mutable_delta(), *messages.back().mutable_delta());
  }
  sample.parts->num_broken_calls = splitter.parser().num_broken_calls();
  return end;
}

// As at vLLM: the text of the first min_new_tokens tokens ends nothing.
bool ResponseBuilder::MayStop(const Sample& sample) const {
  return sample.num_tokens > request_->sampling.min_new_tokens;
}

void ResponseBuilder::AddEnd(uint32_t index, const SampleEnd& end,
                             std::vector<v1::GenerateResponse>& messages) {
  Sample& sample = samples_.at(index);
  if (sample.finished) return;
  const std::optional<size_t> stop_string = AddRest(index, end, messages);
  if (stop_string.has_value()) {
    AddFinish(index, v1::FINISH_REASON_STOP, end.at, messages)
        ->set_stop_string(sample.matcher.stop_string(*stop_string));
    return;
  }
  any_aborted_ = any_aborted_ || end.reason == FinishReason::kAborted;
  v1::Finish* const finish = AddFinish(index, WireReason(end.reason), end.at, messages);
  if (end.stop_token.has_value()) finish->set_stop_token_id(*end.stop_token);
}

std::optional<size_t> ResponseBuilder::AddRest(uint32_t index, const SampleEnd& end,
                                               std::vector<v1::GenerateResponse>& messages) {
  Sample& sample = samples_[index];
  const std::string rest = sample.detokenizer.Flush();
  StopMatcher::Output out;
  if (!rest.empty()) out = sample.matcher.Push(rest, MayStop(sample));
  if (!out.matched.has_value()) out.text += sample.matcher.Flush();
  if (sample.parts != nullptr) {
    OutputSplitter& splitter = sample.parts->splitter;
    std::vector<OutputPart> parts;
    splitter.AddText(rest, "");
    splitter.Take(out.text, parts);
    const bool ends_by_token = end.stop_token.has_value() && !out.matched.has_value();
    splitter.Finish(parts, ends_by_token ? tokenizer_.TokenBytes(*end.stop_token) : "");
    AddParts(std::move(parts), splitter.reading().single_call, sample.parts->messages, messages);
    if (end.reason == FinishReason::kStop) {
      sample.parts->num_broken_calls = splitter.parser().num_broken_calls();
    }
  } else if (!out.text.empty()) {
    const bool follows_own_delta = !messages.empty() && messages.back().has_delta() &&
                                   messages.back().delta().index() == index;
    v1::OutputDelta* const delta =
        (follows_own_delta ? messages.back() : messages.emplace_back()).mutable_delta();
    delta->set_index(index);
    *delta->mutable_text() += out.text;
  }
  return out.matched;
}

v1::Finish* ResponseBuilder::AddFinish(uint32_t index, v1::FinishReason reason, Instant at,
                                       std::vector<v1::GenerateResponse>& messages) {
  Sample& sample = samples_[index];
  sample.finished = true;
  --num_unfinished_;
  uint32_t num_reasoning_tokens = 0;
  if (sample.parts != nullptr) {
    const uint32_t num_calls = sample.parts->splitter.parser().num_whole_calls();
    if (reason == v1::FINISH_REASON_STOP)
      reason = ReasonOf(sample.parts->splitter.reading(), num_calls);
    tool_calls_.num_whole += num_calls;
    tool_calls_.num_broken += sample.parts->num_broken_calls;
    num_reasoning_tokens = sample.parts->num_reasoning_tokens;
  }
  v1::Finish* const finish = messages.emplace_back().mutable_finish();
  finish->set_index(index);
  finish->set_reason(reason);
  v1::Usage* const usage = finish->mutable_usage();
  usage->set_prompt_tokens(static_cast<uint32_t>(request_->prompt_tokens.size()));
  usage->set_completion_tokens(sample.num_tokens);
  usage->set_cached_tokens(start_.num_cached_tokens);
  usage->set_seed(request_->sampling.seed);
  usage->set_reasoning_tokens(num_reasoning_tokens);
  // Right drafts behind a stop string are not part of the output.
  const uint32_t num_accepted = std::min(sample.num_accepted_drafts, sample.num_tokens);
  usage->set_accepted_draft_tokens(num_accepted);
  usage->set_rejected_draft_tokens(sample.num_drafted - num_accepted);
  v1::Timings* const timings = finish->mutable_timings();
  const Instant started = started_ ? start_.at : at;
  timings->set_queue_seconds(absl::ToDoubleSeconds(started - request_->arrival));
  if (sample.num_tokens > 0) {
    timings->set_time_to_first_token_seconds(
        absl::ToDoubleSeconds(sample.first_token_at - request_->arrival));
  }
  timings->set_total_seconds(absl::ToDoubleSeconds(at - request_->arrival));
  return finish;
}

}  // namespace lockstep::router
