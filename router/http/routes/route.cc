#include "router/http/routes/route.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "router/http/dialects/openai/openai_error.h"
#include "router/http/exchanges/reply_exchange.h"

namespace lockstep::router {
namespace {

// The client's id of the request, or a new one.
std::string IdOf(const RouteContext& context, const RoutedRequest& request) {
  if (!request.http.request_id.empty()) return request.http.request_id;
  return context.api.MakeRequestId(context.api.engine.NextKey());
}

void NameRequest(const RoutedRequest& request, const std::string& id, HttpHead& head) {
  const std::string_view header = request.dialect->request_id_header();
  if (!header.empty()) head.headers.emplace_back(header, id);
}

}  // namespace

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
  const absl::Duration retry_after = context.api.config.retry_after;
  std::string body;
  if (request.dialect == nullptr) {
    OpenAiError::Of(status).AppendJson(body);
    return Reply(request, ErrorHead(status, retry_after), std::move(body));
  }
  const std::string id = IdOf(context, request);
  HttpHead head =
      request.dialect->WriteError(status, {.retry_after = retry_after, .request_id = id}, body);
  NameRequest(request, id, head);
  return Reply(request, std::move(head), std::move(body));
}

std::shared_ptr<Exchange> ReplyError(const RouteContext& context, RoutedRequest& request,
                                     const OpenAiError& error, HttpHeaders headers) {
  HttpHead head{.status = error.http_status, .headers = std::move(headers)};
  std::string body;
  const std::string id = request.dialect == nullptr ? "" : IdOf(context, request);
  if (request.dialect != nullptr &&
      request.dialect->WriteRefusal(error.http_status, error.message, id, body)) {
    NameRequest(request, id, head);
  } else {
    error.AppendJson(body);
  }
  return Reply(request, std::move(head), std::move(body));
}

}  // namespace lockstep::router
