#include "router/serving/validation/request_validator.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "common/grpc/sampling_fields.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/serving/validation/constraint_field.h"
#include "router/serving/validation/context_overflow.h"
#include "router/serving/validation/field_checks.h"
#include "router/serving/validation/tool_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

constexpr size_t kMaxCacheSaltBytes = 1024;
constexpr size_t kMaxRoleBytes = 64;
constexpr float kMaxLogitBias = 100.0f;

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
  LOCKSTEP_RETURN_IF_ERROR(CheckConstraintField(sampling, model.enforces_constraints));
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

absl::Status CheckMessage(const v1::ChatMessage& message, const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields(path, message));
  if (message.role().empty()) {
    return InvalidArgument("{}.role: expected a role such as \"user\", got none", path);
  }
  // Templates print role and name between special tokens. These characters cannot spell one.
  LOCKSTEP_RETURN_IF_ERROR(CheckId(path + ".role", message.role(), kMaxRoleBytes));
  LOCKSTEP_RETURN_IF_ERROR(CheckId(path + ".name", message.name(), kMaxRoleBytes));
  return CheckToolFields(message, path);
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
  return InvalidArgument("prompt: expected one of text, token_ids, chat, got none");
}

}  // namespace

absl::Status RequestLimits::Validate() const {
  Violations violations;
  violations.Require(max_prompt_bytes >= 1 && max_prompt_bytes <= 1u << 30,
                     "max_prompt_bytes: must be from 1 to 1073741824");
  violations.Require(max_chat_messages >= 1, "max_chat_messages: must be at least 1");
  violations.Require(max_samples >= 1 && max_samples <= 1024,
                     "max_samples: must be from 1 to 1024");
  violations.Require(max_tools <= 4096, "max_tools: must be at most 4096");
  violations.Require(max_logprobs <= 1024, "max_logprobs: must be at most 1024");
  violations.Require(max_prompt_logprob_cells >= 3, "max_prompt_logprob_cells: must be at least 3");
  return violations.ToStatus();
}

absl::Status CheckModelName(std::string_view name, std::string_view id,
                            std::span<const std::string> aliases) {
  const bool known =
      name.empty() || name == id || std::ranges::any_of(aliases, [name](const std::string& alias) {
        return alias == name || alias == kAnyModel;
      });
  if (known) return absl::OkStatus();
  return NotFound("model: expected {} or nothing, got {}", Quote(id), Quote(name));
}

size_t NumTextBytes(const v1::ChatMessage& message) {
  return message.role().size() + message.name().size() + message.content().size() +
         message.reasoning().size() + message.tool_calls_json().size() +
         message.tool_call_id().size();
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
  size_t num_bytes = chat.tools_json().size();
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    LOCKSTEP_RETURN_IF_ERROR(CheckMessage(message, fmt::format("{}.messages[{}]", path, i)));
    num_bytes += NumTextBytes(message);
  }
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize(path + ".messages", num_bytes, limits.max_prompt_bytes, "bytes"));
  if (chat.continue_final_message() && !chat.messages().rbegin()->tool_calls_json().empty()) {
    return InvalidArgument(
        "{}.continue_final_message: expected a last message without calls of tools", path);
  }
  return CheckTools(chat, path, limits, model);
}

absl::Status CheckRequest(const v1::GenerateRequest& request, const RequestLimits& limits,
                          const ModelFacts& model) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  LOCKSTEP_RETURN_IF_ERROR(CheckId("request_id", request.request_id(), kMaxIdBytes));
  LOCKSTEP_RETURN_IF_ERROR(CheckModelName(request.model(), model.id, model.aliases));
  if (!request.adapter().empty()) {
    return Unimplemented("adapter: adapters are not implemented, got {}", Quote(request.adapter()));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckId("tenant", request.tenant(), kMaxIdBytes));
  LOCKSTEP_RETURN_IF_ERROR(CheckId("session_id", request.session_id(), kMaxIdBytes));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize("cache_salt", request.cache_salt().size(), kMaxCacheSaltBytes, "bytes"));
  if (!v1::Speculation_IsValid(request.speculation())) {
    return InvalidArgument("speculation: expected AUTO (1) or OFF (2), got {}",
                           static_cast<int>(request.speculation()));
  }
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
  if (request.stop().ignore_eos() && !ConstraintPath(request.sampling()).empty()) {
    return InvalidArgument("stop.ignore_eos: expected false beside a constraint, got true");
  }
  if (ForcesCall(request.chat())) {
    LOCKSTEP_RETURN_IF_ERROR(CheckForcedCall(request, model.enforces_constraints));
  }
  // The constraint would allow no call.
  if (OffersTools(request.chat()) && !ConstraintPath(request.sampling()).empty()) {
    return Unimplemented("chat.tools_json: tools beside a constraint are not implemented");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("output", request.output()));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("output.logprobs", request.output().logprobs(), 0, limits.max_logprobs));
  LOCKSTEP_RETURN_IF_ERROR(CheckCount("output.prompt_logprobs", request.output().prompt_logprobs(),
                                      0, limits.max_logprobs));
  return CheckPrompt(request, limits, model);
}

}  // namespace lockstep::router
