#include "router/serving/validation/build_request.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "common/grpc/sampling_fields.h"
#include "common/status.h"
#include "router/serving/validation/bad_words.h"
#include "router/serving/validation/context_overflow.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// How many of the last tokens of the prompt are kept.
uint32_t NumKeptTokens(const v1::GenerateRequest& request, const ModelFacts& model) {
  if (!request.has_truncate_prompt_tokens()) return std::numeric_limits<uint32_t>::max();
  if (request.truncate_prompt_tokens() != kAllThatFits) return request.truncate_prompt_tokens();
  // At least one token of the prompt stays. Too many tokens of output are an error of their own.
  const uint32_t room = model.max_context_tokens;
  return room - std::min(RequestedTokens(request), room - 1);
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

// The tokens that the model can sample.
std::vector<TokenId> KnownTokens(std::vector<TokenId> tokens, const ModelFacts& model) {
  std::erase_if(tokens, [&model](TokenId id) { return id >= model.vocab_size; });
  return tokens;
}

absl::Status CheckSomeTokenIsAllowed(const SamplingParams& sampling) {
  const std::vector<TokenId>& allowed = sampling.allowed_token_ids;
  const std::vector<TokenId>& stops = sampling.stop_token_ids;
  if (sampling.min_new_tokens > 0 && !allowed.empty() &&
      std::includes(stops.begin(), stops.end(), allowed.begin(), allowed.end())) {
    return InvalidArgument(
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

// Sets the bounds of the output's length. The prompt must be there.
absl::Status SetNumNewTokens(const v1::GenerateRequest& in, uint32_t max_context_tokens,
                             Request& out) {
  const uint32_t max_new = max_context_tokens - static_cast<uint32_t>(out.prompt_tokens.size());
  out.sampling.max_new_tokens = in.stop().has_max_tokens() ? in.stop().max_tokens() : max_new;
  if (in.stop().fit_max_tokens()) {
    out.sampling.max_new_tokens = std::min(out.sampling.max_new_tokens, max_new);
  }
  if (out.sampling.max_new_tokens > max_new) {
    return ContextOverflow(in, max_context_tokens, out.prompt_tokens.size(),
                           out.sampling.max_new_tokens, "stop.max_tokens");
  }
  if (out.sampling.min_new_tokens > out.sampling.max_new_tokens) {
    return InvalidArgument("stop.min_tokens: expected at most max_tokens = {}, got {}",
                           out.sampling.max_new_tokens, out.sampling.min_new_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

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
  out.may_draft = in.speculation() != v1::SPECULATION_OFF;
  out.sampling = ResolveSampling(in, model, context.drawn_seed);
  LOCKSTEP_RETURN_IF_ERROR(Forbid(KnownTokens(context.forbidden_tokens, model), out.sampling));

  LOCKSTEP_RETURN_IF_ERROR(SetNumNewTokens(in, model.max_context_tokens, out));
  out.constraint = context.constraint;
  if (out.constraint && out.sampling.stop_token_ids.empty()) {
    return InvalidArgument(
        "stop.stop_token_ids: expected an id beside a constraint, as the model has no end token");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSomeTokenIsAllowed(out.sampling));
  LOCKSTEP_RETURN_IF_ERROR(CheckPromptLogprobs(out, limits));
  return out;
}

}  // namespace lockstep::router
