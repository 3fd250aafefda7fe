#include "router/http/routes/route.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "router/http/dialects/openai/openai_error.h"
#include "router/http/exchanges/reply_exchange.h"

namespace lockstep::router {

bool Route::Takes(std::string_view method) const {
  const std::vector<absl::string_view> all =
      absl::StrSplit(absl::string_view(methods.data(), methods.size()), ", ");
  return std::find(all.begin(), all.end(), absl::string_view(method.data(), method.size())) !=
         all.end();
}

std::shared_ptr<Exchange> Reply(RoutedRequest& request, HttpHead head, std::string body) {
  const auto exchange =
      std::make_shared<ReplyExchange>(std::move(request.signal), request.http.answer);
  exchange->Reply(std::move(head), std::move(body));
  return exchange;
}

std::shared_ptr<Exchange> ReplyError(const RouteContext& context, RoutedRequest& request,
                                     const absl::Status& status) {
  std::string body;
  OpenAiError::Of(status).AppendJson(body);
  return Reply(request, ErrorHead(status, context.api.config.retry_after), std::move(body));
}

std::shared_ptr<Exchange> ReplyError(RoutedRequest& request, const OpenAiError& error,
                                     HttpHeaders headers) {
  std::string body;
  error.AppendJson(body);
  return Reply(request, {.status = error.http_status, .headers = std::move(headers)},
               std::move(body));
}

}  // namespace lockstep::router
