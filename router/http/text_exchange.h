#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "router/api/api_context.h"
#include "router/api/text_requests.h"
#include "router/http/exchange.h"

namespace lockstep::router {

enum class TextKind { kTokenize, kDetokenize };

// POST /tokenize and /detokenize; the work runs on the encode pool. It has its place among the open
// calls until the answer is made; from then on the answer counts against the memory of all answers.
class TextExchange final : public ReplyExchange, public Strand {
 public:
  struct Origin {
    TextKind kind;
    std::shared_ptr<const Tenant> tenant;  // null: nobody in particular
  };
  // `context` outlives the object.
  static std::shared_ptr<Exchange> Start(ApiContext& context, const Origin& origin,
                                         HttpRequest request, std::shared_ptr<OutputSignal> signal);
  TextExchange(ApiContext& context, Origin origin, HttpRequest request,
               std::shared_ptr<OutputSignal> signal);

  void RunStrand() override;
  void Abandon() override;
  std::string_view owner() const override { return NameOf(origin_.tenant.get()); }
  size_t num_work_bytes() const override { return num_body_bytes_; }

 private:
  // From the body to that of the answer.
  absl::StatusOr<std::string> Tokens(std::string_view body);
  absl::StatusOr<std::string> Text(std::string_view body);
  void ReplyError(const absl::Status& status);

  ApiContext& context_;
  const Origin origin_;
  HttpRequest http_;  // its body and the ticket until RunStrand begins, or the client is gone
  std::shared_ptr<TextTicket> ticket_;
  const size_t num_body_bytes_;
  ByteBudget::Share reading_;  // of what the body is read into, while it is
  Mutex begin_mutex_;
  bool begun_ ABSL_GUARDED_BY(begin_mutex_) = false;
};

}  // namespace lockstep::router
