#include "router/http/text_exchange.h"

#include <utility>

#include "common/status.h"
#include "router/http/json_writer.h"
#include "router/http/openai_error.h"
#include "router/http/openai_request.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

std::shared_ptr<Exchange> TextExchange::Start(ApiContext& context, const Origin& origin,
                                              std::string body,
                                              std::shared_ptr<OutputSignal> signal) {
  const auto exchange =
      std::make_shared<TextExchange>(context, origin.kind, std::move(body), std::move(signal));
  absl::StatusOr<std::shared_ptr<TextTicket>> ticket =
      TextTicket::Take(context, origin.tenant.get());
  if (ticket.ok()) {
    exchange->ticket_ = *std::move(ticket);
    context.encode_pool.Schedule(exchange);
  } else {
    exchange->ReplyError(ticket.status());
  }
  return exchange;
}

TextExchange::TextExchange(ApiContext& context, TextKind kind, std::string body,
                           std::shared_ptr<OutputSignal> signal)
    : ReplyExchange(std::move(signal)), context_(context), kind_(kind), body_(std::move(body)) {}

void TextExchange::RunStrand() {
  absl::StatusOr<std::string> reply = kind_ == TextKind::kTokenize ? Tokens() : Text();
  ticket_->EndPass();
  if (!reply.ok()) return ReplyError(reply.status());
  Reply({}, *std::move(reply));
}

absl::StatusOr<std::string> TextExchange::Tokens() const {
  LOCKSTEP_ASSIGN_OR_RETURN(const TokenizeQuery query, ParseTokenizeRequest(body_));
  v1::TokenizeResponse response;
  LOCKSTEP_RETURN_IF_ERROR(Tokenize(context_, query.request, response));
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("count").Int(response.token_ids_size());
  json.Key("max_model_len").Int(context_.Facts().max_context_tokens);
  json.Key("tokens").BeginArray();
  for (const uint32_t id : response.token_ids()) json.Int(id);
  json.EndArray().Key("token_strs");
  if (query.token_strings) {
    json.BeginArray();
    for (const uint32_t id : response.token_ids()) {
      json.String(context_.model.tokenizer->TokenBytes(id));
    }
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return body;
}

absl::StatusOr<std::string> TextExchange::Text() const {
  LOCKSTEP_ASSIGN_OR_RETURN(const v1::DetokenizeRequest request, ParseDetokenizeRequest(body_));
  v1::DetokenizeResponse response;
  if (const absl::Status status = Detokenize(context_, request, response); !status.ok()) {
    return status;
  }
  std::string body;
  JsonWriter(body).BeginObject().Key("prompt").String(response.text()).EndObject();
  return body;
}

void TextExchange::ReplyError(const absl::Status& status) {
  // Their one field is called "tokens" here, not "prompt" as in a completion.
  absl::Status named = status;
  if (Message(status).starts_with("token_ids")) {
    named = absl::Status(status.code(), "tokens" + Message(status).substr(9));
  }
  std::string body;
  OpenAiError::Of(named, ApiKind::kCompletion).AppendJson(body);
  Reply(ErrorHead(named, ApiKind::kCompletion, context_.config.retry_after), std::move(body));
}

}  // namespace lockstep::router
