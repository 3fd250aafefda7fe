#include "router/serving/calls/text_requests.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/grpc/sampling_fields.h"
#include "common/status.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Checks that all fields are known and that `model` names the model served here.
template <typename Request>
absl::Status CheckNamed(const ApiContext& context, const Request& request) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields("request", request));
  return CheckModelName(request.model(), context.model.id, context.model.aliases);
}

}  // namespace

absl::StatusOr<std::shared_ptr<TextTicket>> TextTicket::Take(ApiContext& context,
                                                             const Tenant* tenant) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Gatekeeper::Permit> permit,
                            context.gatekeeper.Admit(tenant, context.clock.Now()));
  LOCKSTEP_RETURN_IF_ERROR(context.text_places.Take(NameOf(tenant)));
  return std::shared_ptr<TextTicket>(new TextTicket(context, std::move(permit), NameOf(tenant)));
}

TextTicket::~TextTicket() { context_.text_places.GiveBack(tenant_); }

size_t NumWorkBytes(const v1::TokenizeRequest& request) {
  return request.has_chat() ? PromptEncoder::NumWorkBytes(request.chat()) : request.text().size();
}

size_t NumWorkBytes(const v1::DetokenizeRequest& request) {
  return sizeof(TokenId) * static_cast<size_t>(request.token_ids_size());
}

absl::Status Tokenize(const ApiContext& context, const v1::TokenizeRequest& request,
                      const CancelFlag& cancellation, v1::TokenizeResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNamed(context, request));
  absl::StatusOr<std::vector<TokenId>> ids =
      InvalidArgument("input: expected one of text, chat, got none");
  if (request.has_text()) {
    if (request.text().size() > context.config.limits.max_prompt_bytes) {
      return InvalidArgument("text: expected at most {} bytes, got {}",
                             context.config.limits.max_prompt_bytes, request.text().size());
    }
    ids = context.encoder.EncodeText(
        request.text(),
        {.add_special_tokens = !request.has_add_special_tokens() || request.add_special_tokens(),
         .parse_special_tokens = context.encoder.ParsesSpecial(request),
         .cancellation = &cancellation});
  } else if (request.has_chat()) {
    if (request.has_add_special_tokens()) {
      return InvalidArgument(
          "add_special_tokens: expected with text only, as a chat's template sets its own");
    }
    if (request.has_parse_special()) return ParseSpecialWithoutText();
    LOCKSTEP_RETURN_IF_ERROR(
        CheckChat(request.chat(), "chat", context.config.limits, context.Facts()));
    ids = context.encoder.EncodeChat(request.chat(), &cancellation);
  }
  if (!ids.ok()) return context.WhyNotEncoded(ids.status());
  response.mutable_token_ids()->Add(ids->begin(), ids->end());
  return absl::OkStatus();
}

absl::Status Detokenize(const ApiContext& context, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse& response) {
  LOCKSTEP_RETURN_IF_ERROR(CheckNamed(context, request));
  const RequestLimits& limits = context.config.limits;
  const uint32_t context_tokens = context.model.config.max_context_tokens;
  const std::vector<TokenId> ids(request.token_ids().begin(), request.token_ids().end());
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize("token_ids", ids.size(), MaxDetokenizedIds(limits, context_tokens), "ids"));
  const Tokenizer& tokenizer = *context.model.tokenizer;
  // The model neither reads nor writes so many ids, so they come from Tokenize. Their text may be
  // as long as Tokenize accepts.
  if (ids.size() > context_tokens) {
    size_t num_bytes = 0;
    for (const TokenId id : ids) num_bytes += tokenizer.TokenBytes(id).size();
    LOCKSTEP_RETURN_IF_ERROR(
        CheckSize("token_ids", num_bytes, MaxTokenizedBytes(limits), "bytes of text"));
  }
  // The server returns ids of the tokenizer and ids of the model. The model may sample an id
  // without a token.
  const uint32_t num_ids = std::max(tokenizer.vocab_size(), context.model.config.vocab_size);
  const auto outside = std::ranges::find_if(ids, [num_ids](TokenId id) { return id >= num_ids; });
  if (outside != ids.end()) {
    return InvalidArgument("token_ids: expected token ids below {}, got {} at index {}", num_ids,
                           *outside, outside - ids.begin());
  }
  response.set_text(tokenizer.Decode(ids, request.skip_special_tokens()));
  return absl::OkStatus();
}

absl::Status CheckModelRequest(const ApiContext& context, const v1::GetModelRequest& request) {
  return CheckNamed(context, request);
}

v1::Model DescribeModel(const ApiContext& context) {
  v1::Model model;
  const ModelFacts facts = context.Facts();
  const FleetStatus status = context.engine.replica_status();
  model.set_id(facts.id);
  model.set_max_context_tokens(facts.max_context_tokens);
  model.set_vocab_size(facts.vocab_size);
  model.mutable_eos_token_ids()->Add(facts.eos_token_ids.begin(), facts.eos_token_ids.end());
  model.set_has_chat_template(facts.has_chat_template);
  WriteSamplingNumbers(facts.defaults, *model.mutable_default_sampling());
  model.set_weights_dtype(status.description.weights_dtype());
  model.set_weights_bytes(status.description.weights_bytes());
  if (status.description.kv_groups_size() > 0) {
    model.set_kv_dtype(status.description.kv_groups(0).dtype());
  }
  model.set_ready(context.engine.ready());
  model.set_numerics_id(status.description.numerics_id());
  return model;
}

std::vector<v1::Model> DescribeModels(const ApiContext& context) {
  std::vector<v1::Model> models = {DescribeModel(context)};
  for (const std::string& alias : context.model.aliases) {
    if (alias == kAnyModel) continue;
    v1::Model model = models.front();
    model.set_id(alias);
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace lockstep::router
