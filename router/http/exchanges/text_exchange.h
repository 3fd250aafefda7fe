#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/runtime/cancel_flag.h"
#include "router/front/connection/exchange.h"
#include "router/http/dialects/openai/text_queries.h"
#include "router/http/exchanges/body_decoder.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/http/messages/http_request.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/calls/text_requests.h"

namespace lockstep::router {

enum class TextKind { kTokenize, kDetokenize, kCountTokens };

// POST /tokenize, /detokenize and /v1/messages/count_tokens. The work runs on the encode pool.
// Holds a TextTicket until the answer is made. From then on the answer counts against the memory of
// all answers.
class TextExchange final : public ReplyExchange,
                           public Strand,
                           public std::enable_shared_from_this<TextExchange> {
 public:
  // `context` must outlive the object. `tenant` null: no tenant.
  static std::shared_ptr<Exchange> Start(ApiContext& context, TextKind kind,
                                         std::shared_ptr<const Tenant> tenant, HttpRequest request,
                                         std::shared_ptr<OutputSignal> signal);
  TextExchange(ApiContext& context, TextKind kind, std::shared_ptr<const Tenant> tenant,
               HttpRequest request, std::shared_ptr<OutputSignal> signal);

  void RunStrand() override;
  void OnClosed() override;
  std::string_view owner() const override { return NameOf(tenant_.get()); }
  size_t num_work_bytes() const override { return num_work_bytes_; }

 private:
  // Runs the next turn of decompression, which completes `body` or fails. Nothing: it waits for
  // another turn, or the client is gone.
  std::optional<absl::Status> Decode(std::unique_ptr<BodyDecoder>& decoder, std::string& body);
  // True: the query is more work than its body suggested, and waits for another turn.
  bool AwaitsTurn(TokenizeQuery& query);
  // From the body, or the parsed query, to the body of the answer.
  BodyReading Reading();
  absl::StatusOr<TokenizeQuery> ReadTokenize(std::string_view body);
  absl::StatusOr<std::string> Tokens(const TokenizeQuery& query);
  absl::StatusOr<std::string> Text(const DetokenizeQuery& query);
  void ReplyError(const absl::Status& status);
  // Adds the headers of an answer to count_tokens.
  void AddOwnHeaders(HttpHead& head) const;

  ApiContext& context_;
  const TextKind kind_;
  const std::string id_;  // of a count_tokens
  const std::shared_ptr<const Tenant> tenant_;
  HttpRequest http_;  // its body and the ticket exist until RunStrand or OnClosed
  std::shared_ptr<TextTicket> ticket_;
  size_t num_work_bytes_;      // of the body, then of the query
  ByteBudget::Share reading_;  // of the parsed body, while it is used
  CancelFlag cancellation_;    // cancels the work when the client is gone
  Mutex begin_mutex_;
  bool begun_ ABSL_GUARDED_BY(begin_mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(begin_mutex_) = false;
  // Set while they wait for a turn.
  std::unique_ptr<BodyDecoder> decoder_ ABSL_GUARDED_BY(begin_mutex_);
  std::optional<TokenizeQuery> query_ ABSL_GUARDED_BY(begin_mutex_);
};

}  // namespace lockstep::router
