#include "router/http/exchanges/text_exchange.h"

#include <utility>

#include "common/runtime/release_memory.h"
#include "common/status.h"
#include "router/http/dialects/anthropic/messages_dialect.h"
#include "router/http/dialects/anthropic/messages_request.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/json/json_writer.h"
#include "router/http/json/unknown_fields.h"

namespace lockstep::router {

namespace v1 = lockstep::v1;

std::shared_ptr<Exchange> TextExchange::Start(ApiContext& context, TextKind kind,
                                              std::shared_ptr<const Tenant> tenant,
                                              HttpRequest request,
                                              std::shared_ptr<OutputSignal> signal) {
  const auto exchange =
      std::make_shared<TextExchange>(context, kind, tenant, std::move(request), std::move(signal));
  absl::StatusOr<std::shared_ptr<TextTicket>> ticket = TextTicket::Take(context, tenant.get());
  if (ticket.ok()) {
    exchange->ticket_ = *std::move(ticket);
    context.encode_pool.Schedule(exchange);
  } else {
    exchange->ReplyError(ticket.status());
  }
  return exchange;
}

TextExchange::TextExchange(ApiContext& context, TextKind kind, std::shared_ptr<const Tenant> tenant,
                           HttpRequest request, std::shared_ptr<OutputSignal> signal)
    : ReplyExchange(std::move(signal), request.answer, NameOf(tenant.get())),
      context_(context),
      kind_(kind),
      id_(request.request_id.empty() ? context.MakeRequestId(context.engine.NextKey())
                                     : request.request_id),
      tenant_(std::move(tenant)),
      http_(std::move(request)),
      num_work_bytes_(http_.body.size()),
      reading_(http_.answer.ShareOf(NameOf(tenant_.get()))),
      cancellation_(&context.closing) {}

void TextExchange::RunStrand() {
  absl::StatusOr<std::string> reply = absl::InternalError("");
  std::string ignored_fields;
  {
    std::string body;
    std::optional<TokenizeQuery> query;
    std::unique_ptr<BodyDecoder> decoder;
    {
      MutexLock lock(begin_mutex_);
      query = std::exchange(query_, std::nullopt);
      decoder.swap(decoder_);
      if (std::exchange(begun_, true) && !query.has_value() && decoder == nullptr) return;
      body.swap(http_.body);
    }
    if (IsCompressed(http_) && !query.has_value()) {
      const std::optional<absl::Status> decoded = Decode(decoder, body);
      if (!decoded.has_value()) return;
      if (!decoded->ok()) {
        ticket_.reset();
        return ReplyError(*decoded);
      }
    }
    if (kind_ == TextKind::kDetokenize) {
      absl::StatusOr<DetokenizeQuery> read = ParseDetokenizeRequest(body, Reading());
      reply = read.ok() ? Text(*read) : read.status();
      if (read.ok()) ignored_fields = std::move(read->ignored_fields);
    } else {
      const bool waited = query.has_value();
      absl::StatusOr<TokenizeQuery> read = waited ? *std::move(query) : ReadTokenize(body);
      if (read.ok() && !waited && AwaitsTurn(*read)) return;
      reply = read.ok() ? Tokens(*read) : read.status();
      if (read.ok()) ignored_fields = std::move(read->ignored_fields);
    }
    reading_.Resize(0);
  }
  // The client may call again as soon as it can know that this call is over. A client that never
  // takes the answer holds no place.
  ticket_.reset();
  if (!reply.ok()) return ReplyError(reply.status());
  HttpHead head;
  AddOwnHeaders(head);
  if (!ignored_fields.empty()) {
    head.headers.emplace_back(kIgnoredFieldsHeader, std::move(ignored_fields));
  }
  Reply(std::move(head), *std::move(reply));
}

void TextExchange::OnClosed() {
  cancellation_.Cancel();
  MutexLock lock(begin_mutex_);
  abandoned_ = true;
  if (std::exchange(begun_, true) && !query_.has_value() && decoder_ == nullptr) return;
  query_.reset();
  decoder_.reset();
  reading_.Resize(0);
  // The exchange may wait long for a thread, and the body is not counted any more.
  ReleaseMemory(http_.body);
  ticket_.reset();
}

std::optional<absl::Status> TextExchange::Decode(std::unique_ptr<BodyDecoder>& decoder,
                                                 std::string& body) {
  if (decoder == nullptr) decoder = BodyDecoder::Of(http_, std::move(body), owner());
  const absl::StatusOr<bool> whole = decoder->Turn();
  if (!whole.ok()) return whole.status();
  if (*whole) {
    body = decoder->TakeBody();
    return absl::OkStatus();
  }
  num_work_bytes_ = BodyDecoder::kTurnBytes;
  {
    MutexLock lock(begin_mutex_);
    if (abandoned_) {
      ticket_.reset();
      return std::nullopt;
    }
    decoder_ = std::move(decoder);
  }
  context_.encode_pool.Schedule(shared_from_this());
  return std::nullopt;
}

bool TextExchange::AwaitsTurn(TokenizeQuery& query) {
  const size_t num_bytes = NumWorkBytes(query.request);
  if (num_bytes <= num_work_bytes_) return false;
  num_work_bytes_ = num_bytes;
  {
    MutexLock lock(begin_mutex_);
    if (abandoned_) {
      ticket_.reset();
      return true;
    }
    query_ = std::move(query);
  }
  context_.encode_pool.Schedule(shared_from_this());
  return true;
}

BodyReading TextExchange::Reading() {
  return {.meter = [this](size_t num_bytes) { return reading_.Resize(num_bytes); },
          .strict_fields = context_.config.strict_fields};
}

absl::StatusOr<TokenizeQuery> TextExchange::ReadTokenize(std::string_view body) {
  return kind_ == TextKind::kCountTokens ? ParseCountTokensRequest(body, Reading())
                                         : ParseTokenizeRequest(body, Reading());
}

absl::StatusOr<std::string> TextExchange::Tokens(const TokenizeQuery& query) {
  v1::TokenizeResponse response;
  LOCKSTEP_RETURN_IF_ERROR(Tokenize(context_, query.request, cancellation_, response));
  std::string reply;
  JsonWriter json(reply);
  if (kind_ == TextKind::kCountTokens) {
    json.BeginObject().Key("input_tokens").Int(response.token_ids_size()).EndObject();
    return reply;
  }
  json.BeginObject().Key("count").Int(response.token_ids_size());
  json.Key("max_model_len").Int(context_.Facts().max_context_tokens);
  json.Key("tokens").BeginArray();
  for (const uint32_t id : response.token_ids()) json.Int(id);
  json.EndArray().Key("token_strs");
  if (query.token_strings) {
    json.BeginArray();
    for (const uint32_t id : response.token_ids()) {
      json.String(context_.model.tokenizer->VocabularyString(id));
    }
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  return reply;
}

absl::StatusOr<std::string> TextExchange::Text(const DetokenizeQuery& query) {
  v1::DetokenizeResponse response;
  LOCKSTEP_RETURN_IF_ERROR(Detokenize(context_, query.request, response));
  std::string reply;
  JsonWriter(reply).BeginObject().Key("prompt").String(response.text()).EndObject();
  return reply;
}

void TextExchange::AddOwnHeaders(HttpHead& head) const {
  if (kind_ != TextKind::kCountTokens) return;
  head.headers.emplace_back(MessagesDialect().request_id_header(), id_);
}

void TextExchange::ReplyError(const absl::Status& status) {
  std::string body;
  const absl::Duration retry_after = context_.config.retry_after;
  if (kind_ == TextKind::kCountTokens) {
    HttpHead head =
        MessagesDialect().WriteError(status, {.retry_after = retry_after, .request_id = id_}, body);
    AddOwnHeaders(head);
    return Reply(std::move(head), std::move(body));
  }
  // The field is called "tokens" here, not "prompt" as in a completion.
  absl::Status named = status;
  if (Message(status).starts_with("token_ids")) {
    named = absl::Status(status.code(), "tokens" + Message(status).substr(9));
  }
  OpenAiError::Of(named).AppendJson(body);
  Reply(ErrorHead(named, retry_after), std::move(body));
}

}  // namespace lockstep::router
