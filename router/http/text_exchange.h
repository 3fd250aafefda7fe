#pragma once

#include <memory>
#include <string>

#include "router/api/api_context.h"
#include "router/api/text_requests.h"
#include "router/http/exchange.h"

namespace lockstep::router {

enum class TextKind { kTokenize, kDetokenize };

// POST /tokenize and /detokenize; the work runs on the encode pool.
class TextExchange final : public ReplyExchange, public Strand {
 public:
  struct Origin {
    TextKind kind;
    std::shared_ptr<const Tenant> tenant;  // null: nobody in particular
  };
  // `context` outlives the object.
  static std::shared_ptr<Exchange> Start(ApiContext& context, const Origin& origin,
                                         std::string body, std::shared_ptr<OutputSignal> signal);
  TextExchange(ApiContext& context, TextKind kind, std::string body,
               std::shared_ptr<OutputSignal> signal);

  void RunStrand() override;

 private:
  absl::StatusOr<std::string> Tokens() const;
  absl::StatusOr<std::string> Text() const;
  void ReplyError(const absl::Status& status);

  ApiContext& context_;
  const TextKind kind_;
  const std::string body_;
  std::shared_ptr<TextTicket> ticket_;
};

}  // namespace lockstep::router
