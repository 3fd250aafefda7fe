#include "router/serving/validation/request_validator.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "common/grpc/sampling_fields.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/serving/validation/bad_words.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr size_t kMaxCacheSaltBytes = 1024;
constexpr size_t kMaxRoleBytes = 64;
constexpr float kMaxLogitBias = 100.0f;
constexpr char kContextOverflow[] = "lockstep.context_overflow";  // payload: path of the field

absl::Status MarkOverflow(absl::Status status, std::string_view path) {
  if (!status.ok()) {
    status.SetPayload(kContextOverflow, absl::Cord(absl::string_view(path.data(), path.size())));
  }
  return status;
}

// OpenAI's servers use these words. Clients look for them and then shorten their prompt. Some
// clients look for the error's code in its message.
absl::Status ContextOverflow(const v1::GenerateRequest& request, uint32_t context_tokens,
                             uint64_t prompt_tokens, uint64_t completion_tokens,
                             std::string_view path) {
  const std::string_view input = request.has_chat() ? "messages" : "prompt";
  return MarkOverflow(
      InvalidArgument("This model's maximum context length is {} tokens. However, you requested {} "
                      "tokens ({} in the {}, {} in the completion). Please reduce the length of "
                      "the {} or completion (context_length_exceeded).",
                      context_tokens, prompt_tokens + completion_tokens, prompt_tokens, input,
                      completion_tokens, input),
      path);
}

// At least one token is generated.
uint32_t RequestedTokens(const v1::GenerateRequest& request) {
  return std::max(request.stop().max_tokens(), 1u);
}

// Of a prompt, its last ones.
uint32_t NumKeptTokens(const v1::GenerateRequest& request, const ModelFacts& model) {
  if (!request.has_truncate_prompt_tokens()) return std::numeric_limits<uint32_t>::max();
  if (request.truncate_prompt_tokens() != kAllThatFits) return request.truncate_prompt_tokens();
  // At least one token of the prompt stays. Too many for the output are an error of their own.
  const uint32_t room = model.max_context_tokens;
  return room - std::min(RequestedTokens(request), room - 1);
}

absl::Status CheckTokenId(std::string_view path, TokenId id, const ModelFacts& model) {
  if (id < model.vocab_size) return absl::OkStatus();
  return InvalidArgument("{}: expected a token id below {}, got {}", path, model.vocab_size, id);
}

template <typename Ids>
absl::Status CheckTokenIds(std::string_view path, const Ids& ids, const ModelFacts& model) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] >= model.vocab_size) {
      return CheckTokenId(fmt::format("{}[{}]", path, i), ids[i], model);
    }
  }
  return absl::OkStatus();
}

template <typename Strings>
absl::Status CheckStrings(std::string_view path, const Strings& strings, uint32_t max_strings,
                          uint32_t max_bytes) {
  LOCKSTEP_RETURN_IF_ERROR(CheckSize(path, strings.size(), max_strings, "strings"));
  for (int i = 0; i < strings.size(); ++i) {
    const std::string string_path = fmt::format("{}[{}]", path, i);
    if (strings[i].empty()) {
      return InvalidArgument("{}: expected at least 1 byte, got none", string_path);
    }
    LOCKSTEP_RETURN_IF_ERROR(CheckSize(string_path, strings[i].size(), max_bytes, "bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const v1::SamplingParams& sampling, const RequestLimits& limits,
                           const ModelFacts& model) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("sampling", sampling));
  switch (sampling.constraint_case()) {
    case v1::SamplingParams::kJsonSchema:
      return absl::UnimplementedError("sampling.json_schema: guided decoding is not implemented");
    case v1::SamplingParams::kRegex:
      return absl::UnimplementedError("sampling.regex: guided decoding is not implemented");
    case v1::SamplingParams::kGrammar:
      return absl::UnimplementedError("sampling.grammar: guided decoding is not implemented");
    case v1::SamplingParams::kJsonObject:
      return absl::UnimplementedError("sampling.json_object: guided decoding is not implemented");
    case v1::SamplingParams::CONSTRAINT_NOT_SET:
      break;
  }
  SamplingNumbers numbers;
  ReadSamplingNumbers(sampling, numbers);
  LOCKSTEP_RETURN_IF_ERROR(CheckSamplingNumbers(numbers, "sampling."));
  if (sampling.has_n()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckCount("sampling.n", sampling.n(), 1, limits.max_samples));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSize("sampling.logit_bias", sampling.logit_bias_size(),
                                     limits.max_logit_bias_entries, "entries"));
  for (const auto& [id, bias] : sampling.logit_bias()) {
    const std::string path = fmt::format("sampling.logit_bias[{}]", id);
    LOCKSTEP_RETURN_IF_ERROR(CheckTokenId(path, id, model));
    LOCKSTEP_RETURN_IF_ERROR(CheckRange(path, bias, -kMaxLogitBias, kMaxLogitBias));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSize("sampling.allowed_token_ids",
                                     sampling.allowed_token_ids_size(),
                                     limits.max_allowed_token_ids, "ids"));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckTokenIds("sampling.allowed_token_ids", sampling.allowed_token_ids(), model));
  return CheckStrings("sampling.bad_words", sampling.bad_words(), limits.max_bad_words,
                      limits.max_bad_word_bytes);
}

absl::Status CheckStop(const v1::StopCriteria& stop, const RequestLimits& limits,
                       const ModelFacts& model) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("stop", stop));
  if (stop.has_max_tokens()) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckCount("stop.max_tokens", stop.max_tokens(), 1, std::numeric_limits<uint32_t>::max()));
  }
  if (stop.has_min_tokens()) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckCount("stop.min_tokens", stop.min_tokens(), 0, model.max_context_tokens - 1));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckStrings("stop.stop", stop.stop(), limits.max_stop_strings,
                                        limits.max_stop_string_bytes));
  LOCKSTEP_RETURN_IF_ERROR(CheckSize("stop.stop_token_ids", stop.stop_token_ids_size(),
                                     limits.max_stop_token_ids, "ids"));
  return CheckTokenIds("stop.stop_token_ids", stop.stop_token_ids(), model);
}

absl::Status CheckNumIds(const v1::GenerateRequest& request, const RequestLimits& limits,
                         const ModelFacts& model) {
  const auto num_ids = static_cast<uint32_t>(request.token_ids().ids_size());
  // Longer prompts may be cut only to fit the context. A prompt many times as long is a mistake.
  if (request.has_truncate_prompt_tokens()) {
    return MarkOverflow(CheckSize("token_ids.ids", num_ids, limits.max_prompt_bytes, "ids"),
                        "token_ids.ids");
  }
  if (num_ids < model.max_context_tokens) return absl::OkStatus();
  return ContextOverflow(request, model.max_context_tokens, num_ids, RequestedTokens(request),
                         "token_ids.ids");
}

absl::Status CheckPrompt(const v1::GenerateRequest& request, const RequestLimits& limits,
                         const ModelFacts& model) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return CheckSize("text", request.text().size(), limits.max_prompt_bytes, "bytes");
    case v1::GenerateRequest::kTokenIds:
      LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("token_ids", request.token_ids()));
      LOCKSTEP_RETURN_IF_ERROR(CheckNumIds(request, limits, model));
      return CheckTokenIds("token_ids.ids", request.token_ids().ids(), model);
    case v1::GenerateRequest::kChat:
      return CheckChat(request.chat(), "chat", limits, model);
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("prompt: expected one of text, token_ids, chat, got none");
}

absl::Status CheckNotInThePast(const RequestContext& context) {
  if (context.deadline > context.now) return absl::OkStatus();
  return MakeError(absl::StatusCode::kDeadlineExceeded,
                   "deadline: expected a time in the future, got {} ago",
                   absl::FormatDuration(context.now - context.deadline));
}

std::string_view PromptPath(const v1::GenerateRequest& request) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return "text";
    case v1::GenerateRequest::kTokenIds:
      return "token_ids.ids";
    case v1::GenerateRequest::kChat:
      return "chat.messages";
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return "prompt";
}

std::vector<TokenId> SortedUnique(std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Resolves `sampling`, `stop` and `output`, except what depends on the prompt's length.
SamplingParams ResolveSampling(const v1::GenerateRequest& request, const ModelFacts& model,
                               uint64_t drawn_seed) {
  const v1::SamplingParams& in = request.sampling();
  SamplingParams out{model.defaults};
  ReadSamplingNumbers(in, out);
  out.seed = in.has_seed() ? in.seed() : drawn_seed;
  out.logit_bias.assign(in.logit_bias().begin(), in.logit_bias().end());
  std::sort(out.logit_bias.begin(), out.logit_bias.end());
  out.allowed_token_ids =
      SortedUnique({in.allowed_token_ids().begin(), in.allowed_token_ids().end()});
  const v1::StopCriteria& stop = request.stop();
  std::vector<TokenId> stop_ids(stop.stop_token_ids().begin(), stop.stop_token_ids().end());
  if (!stop.ignore_eos()) {
    stop_ids.insert(stop_ids.end(), model.eos_token_ids.begin(), model.eos_token_ids.end());
  }
  out.stop_token_ids = SortedUnique(std::move(stop_ids));
  out.min_new_tokens = stop.min_tokens();
  if (request.output().has_logprobs()) {
    out.num_logprobs = static_cast<int32_t>(request.output().logprobs());
  }
  if (request.output().has_prompt_logprobs()) {
    out.num_prompt_logprobs = static_cast<int32_t>(request.output().prompt_logprobs());
  }
  return out;
}

// Those that the model can sample.
std::vector<TokenId> KnownTokens(std::vector<TokenId> tokens, const ModelFacts& model) {
  std::erase_if(tokens, [&model](TokenId id) { return id >= model.vocab_size; });
  return tokens;
}

absl::Status CheckSomeTokenIsAllowed(const SamplingParams& sampling) {
  const std::vector<TokenId>& allowed = sampling.allowed_token_ids;
  const std::vector<TokenId>& stops = sampling.stop_token_ids;
  if (sampling.min_new_tokens > 0 && !allowed.empty() &&
      std::includes(stops.begin(), stops.end(), allowed.begin(), allowed.end())) {
    return absl::InvalidArgumentError(
        "sampling.allowed_token_ids: expected an id that is no stop id while stop.min_tokens masks "
        "those, got stop ids only");
  }
  return absl::OkStatus();
}

absl::Status CheckPromptLogprobs(const Request& request, const RequestLimits& limits) {
  if (request.sampling.num_prompt_logprobs < 0) return absl::OkStatus();
  const uint64_t cells_per_token = static_cast<uint64_t>(request.sampling.num_prompt_logprobs) + 3;
  if (request.prompt_tokens.size() * cells_per_token <= limits.max_prompt_logprob_cells) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "output.prompt_logprobs: expected a prompt of at most {} tokens for k = {}, got {}",
      limits.max_prompt_logprob_cells / cells_per_token, request.sampling.num_prompt_logprobs,
      request.prompt_tokens.size());
}

}  // namespace

absl::Status RequestLimits::Validate() const {
  Violations violations;
  violations.Require(max_prompt_bytes >= 1 && max_prompt_bytes <= 1u << 30,
                     "max_prompt_bytes: must be from 1 to 1073741824");
  violations.Require(max_chat_messages >= 1, "max_chat_messages: must be at least 1");
  violations.Require(max_samples >= 1 && max_samples <= 1024,
                     "max_samples: must be from 1 to 1024");
  violations.Require(max_logprobs <= 1024, "max_logprobs: must be at most 1024");
  violations.Require(max_prompt_logprob_cells >= 3, "max_prompt_logprob_cells: must be at least 3");
  return violations.ToStatus();
}

std::optional<std::string> ContextOverflowPath(const absl::Status& status) {
  const auto path = status.GetPayload(kContextOverflow);
  if (!path.has_value()) return std::nullopt;
  return std::string(*path);
}

absl::Status CheckChat(const v1::ChatPrompt& chat, const std::string& path,
                       const RequestLimits& limits, const ModelFacts& model) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields(path, chat));
  if (!model.has_chat_template) {
    return InvalidArgument("{}: expected text or token_ids, as model {} has no chat template", path,
                           Quote(model.id));
  }
  if (chat.continue_final_message() && chat.add_generation_prompt()) {
    return InvalidArgument(
        "{}.add_generation_prompt: expected false with continue_final_message, got true", path);
  }
  if (chat.messages_size() == 0) {
    return InvalidArgument("{}.messages: expected at least 1 message, got none", path);
  }
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize(path + ".messages", chat.messages_size(), limits.max_chat_messages, "messages"));
  LOCKSTEP_RETURN_IF_ERROR(CheckSize(path + ".template_arguments_json",
                                     chat.template_arguments_json().size(),
                                     limits.max_template_arguments_bytes, "bytes"));
  size_t num_bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    const std::string message_path = fmt::format("{}.messages[{}]", path, i);
    LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields(message_path, message));
    if (message.role().empty()) {
      return InvalidArgument("{}.role: expected a role such as \"user\", got none", message_path);
    }
    // Templates print these between special tokens. With these characters they cannot spell one.
    LOCKSTEP_RETURN_IF_ERROR(CheckId(message_path + ".role", message.role(), kMaxRoleBytes));
    LOCKSTEP_RETURN_IF_ERROR(CheckId(message_path + ".name", message.name(), kMaxRoleBytes));
    num_bytes += message.role().size() + message.name().size() + message.content().size();
  }
  return CheckSize(path + ".messages", num_bytes, limits.max_prompt_bytes, "bytes");
}

absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits,
                          const ModelFacts& model) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  LOCKSTEP_RETURN_IF_ERROR(CheckId("request_id", request.request_id(), kMaxIdBytes));
  if (!request.model().empty() && request.model() != model.id) {
    return NotFound("model: expected {} or nothing, got {}", Quote(model.id),
                    Quote(request.model()));
  }
  if (!request.adapter().empty()) {
    return Unimplemented("adapter: adapters are not implemented, got {}", Quote(request.adapter()));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckId("tenant", request.tenant(), kMaxIdBytes));
  LOCKSTEP_RETURN_IF_ERROR(CheckId("session_id", request.session_id(), kMaxIdBytes));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize("cache_salt", request.cache_salt().size(), kMaxCacheSaltBytes, "bytes"));
  if (request.priority() < -kMaxPriority || request.priority() > kMaxPriority) {
    return InvalidArgument("priority: expected a number from {} to {}, got {}", -kMaxPriority,
                           kMaxPriority, request.priority());
  }
  if (request.has_parse_special() && !request.has_text()) return ParseSpecialWithoutText();
  if (request.has_truncate_prompt_tokens() && request.truncate_prompt_tokens() != kAllThatFits) {
    LOCKSTEP_RETURN_IF_ERROR(CheckCount("truncate_prompt_tokens", request.truncate_prompt_tokens(),
                                        1, model.max_context_tokens - 1));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSampling(request.sampling(), limits, model));
  LOCKSTEP_RETURN_IF_ERROR(CheckStop(request.stop(), limits, model));
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("output", request.output()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("output.logprobs", request.output().logprobs(), 0, limits.max_logprobs));
  LOCKSTEP_RETURN_IF_ERROR(CheckCount("output.prompt_logprobs", request.output().prompt_logprobs(),
                                      0, limits.max_logprobs));
  return CheckPrompt(request, limits, model);
}

absl::StatusOr<Request> BuildRequest(const v1::GenerateRequest& in,
                                     std::vector<TokenId> prompt_tokens,
                                     const RequestLimits& limits, const ModelFacts& model,
                                     const RequestContext& context) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNotInThePast(context));
  if (const uint32_t num_kept = NumKeptTokens(in, model); prompt_tokens.size() > num_kept) {
    prompt_tokens.erase(prompt_tokens.begin(), prompt_tokens.end() - num_kept);
  }
  // At least one token is generated, and it needs a place in the context too.
  const uint32_t room = model.max_context_tokens - 1;
  const uint32_t max_prompt =
      limits.max_prompt_tokens == 0 ? room : std::min(room, limits.max_prompt_tokens);
  if (prompt_tokens.size() > room) {
    return ContextOverflow(in, model.max_context_tokens, prompt_tokens.size(), RequestedTokens(in),
                           PromptPath(in));
  }
  if (prompt_tokens.empty() || prompt_tokens.size() > max_prompt) {
    const absl::Status status =
        InvalidArgument("{}: expected 1 to {} tokens (context {}), got {}", PromptPath(in),
                        max_prompt, model.max_context_tokens, prompt_tokens.size());
    return prompt_tokens.empty() ? status : MarkOverflow(status, PromptPath(in));
  }

  LOCKSTEP_RETURN_IF_ERROR(CheckModelTokens(PromptPath(in), prompt_tokens, model.vocab_size));

  Request out;
  out.key = context.key;
  out.id = in.request_id().empty() ? context.made_up_id : in.request_id();
  out.tenant = in.tenant();
  out.prefix_root.salt = in.cache_salt();
  out.session_id = in.session_id();
  out.priority = in.priority();
  out.arrival = context.now;
  out.deadline = context.deadline;
  out.prompt_tokens = std::move(prompt_tokens);
  out.num_samples = in.sampling().has_n() ? in.sampling().n() : 1;
  out.bypass_prefix_cache = in.bypass_prefix_cache();
  out.sampling = ResolveSampling(in, model, context.drawn_seed);
  LOCKSTEP_RETURN_IF_ERROR(Forbid(KnownTokens(context.forbidden_tokens, model), out.sampling));

  const uint32_t max_new =
      model.max_context_tokens - static_cast<uint32_t>(out.prompt_tokens.size());
  out.sampling.max_new_tokens = in.stop().has_max_tokens() ? in.stop().max_tokens() : max_new;
  if (out.sampling.max_new_tokens > max_new) {
    return ContextOverflow(in, model.max_context_tokens, out.prompt_tokens.size(),
                           out.sampling.max_new_tokens, "stop.max_tokens");
  }
  if (out.sampling.min_new_tokens > out.sampling.max_new_tokens) {
    return InvalidArgument("stop.min_tokens: expected at most max_tokens = {}, got {}",
                           out.sampling.max_new_tokens, out.sampling.min_new_tokens);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSomeTokenIsAllowed(out.sampling));
  LOCKSTEP_RETURN_IF_ERROR(CheckPromptLogprobs(out, limits));
  return out;
}

}  // namespace lockstep::router
