#include "router/http/gateway.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/exchanges/body_decoder.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/serving/calls/call_door.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
// A tenant at its limit is refused before a larger body is read. That costs its connection.
constexpr uint64_t kMaxUnaskedBodyBytes = 32 << 10;
// "OPTIONS *" asks for the methods of the server as a whole.
constexpr std::string_view kServer = "*";
constexpr std::string_view kServerMethods = "GET, HEAD, POST, OPTIONS";

// The usual methods of web servers. RFC 9110 section 15.6.2 requires 501 for any other, and CONNECT
// is for proxies.
bool IsKnownMethod(std::string_view method) {
  constexpr std::string_view kKnown[] = {"GET",   "HEAD",    "POST",   "PUT",
                                         "PATCH", "OPTIONS", "DELETE", "TRACE"};
  return std::ranges::find(kKnown, method) != std::end(kKnown);
}

// A form on any web page can post without permission, but not with the type of JSON. A program may
// leave the type out. A page may not: a request without a type needs no preflight.
bool MayBeJson(const HttpRequest& http) {
  if (http.content_type.empty()) return http.origin.empty();
  return IsJsonContentType(http.content_type);
}

OpenAiError WrongContentType(std::string_view content_type) {
  return {.http_status = 415,
          .type = kInvalid,
          .code = "unsupported_media_type",
          .message = fmt::format("send the header \"Content-Type: application/json\", got {}",
                                 Quote(content_type))};
}

OpenAiError WrongContentEncoding(std::string_view content_encoding) {
  return {.http_status = 415,
          .type = kInvalid,
          .code = "unsupported_media_type",
          .message = fmt::format("Content-Encoding: expected one of {}, or no such header, got {}",
                                 kServedCodings, Quote(content_encoding))};
}

HttpHeaders AllowHeader(std::string_view methods) { return {{"Allow", std::string(methods)}}; }

}  // namespace

std::shared_ptr<Exchange> Gateway::Handle(HttpRequest http, std::shared_ptr<OutputSignal> signal) {
  // If keys are required, a page without a key cannot read anything.
  const bool local = http.loopback_only && !context_.api.gatekeeper.asks_for_keys();
  absl::Status status = local ? browsers_.CheckLocal(http) : absl::OkStatus();
  // A browser sends no key with a preflight.
  if (status.ok()) status = browsers_.CheckPreflight(http);
  const Dialect* const dialect = routes_.DialectOf(http.path);
  RoutedRequest request{
      .http = std::move(http), .tenant = nullptr, .signal = std::move(signal), .dialect = dialect};
  if (!status.ok()) return ReplyError(context_, request, status);
  if (auto preflight = browsers_.AnswerPreflight(request.http, request.signal)) return preflight;
  const std::string origin = request.http.origin;
  return browsers_.Share(origin, Answer(std::move(request)));
}

std::shared_ptr<Exchange> Gateway::RefuseUnread(const HttpRequest& http, int http_status,
                                                std::string message,
                                                std::shared_ptr<OutputSignal> signal) const {
  const Dialect* const dialect = routes_.DialectOf(http.path);
  if (dialect == nullptr) return Refusal(http_status, std::move(message), std::move(signal));
  HttpRequest named;
  named.request_id = http.request_id;
  RoutedRequest request{
      .http = std::move(named), .tenant = nullptr, .signal = std::move(signal), .dialect = dialect};
  HttpHeaders headers;
  if (http_status >= 500) headers.emplace_back("Retry-After", "1");
  return ReplyError(context_, request,
                    {.http_status = http_status,
                     .type = http_status >= 500 ? "server_error" : kInvalid,
                     .message = std::move(message)},
                    std::move(headers));
}

std::shared_ptr<Exchange> Gateway::Answer(RoutedRequest request) {
  const Route* const route = routes_.Find(request.http.path);
  // A path for everybody needs no key. But without a valid key the body is not read.
  const bool for_everybody = route != nullptr && route->audience == Audience::kEverybody;
  const bool body_follows = request.http.body_follows;
  bool is_known = true;
  if (!for_everybody || body_follows) {
    auto caller =
        context_.api.gatekeeper.Identify(request.http.authorization, request.http.api_key);
    if (!caller.ok() && !for_everybody) return ReplyError(context_, request, caller.status());
    is_known = caller.ok();
    if (is_known) request.tenant = *std::move(caller);
  }
  // The key is checked again with the body, because it may be removed meanwhile.
  if (is_known && body_follows) return CheckHeader(route, request);
  const std::string_view method = request.http.method;
  if (route == nullptr || !route->Takes(method)) return Refuse(route, request);
  if (method == "OPTIONS") {
    return Reply(request, {.content_type = "text/plain", .headers = AllowHeader(route->methods)},
                 "");
  }
  return route->answer(context_, std::move(request));
}

std::shared_ptr<Exchange> Gateway::CheckHeader(const Route* route, RoutedRequest& request) {
  const HttpRequest& http = request.http;
  absl::Status limit;
  if (route != nullptr && route->reads_json) {
    if (!MayBeJson(http)) return ReplyError(context_, request, WrongContentType(http.content_type));
    if (!ParseContentCoding(http.content_encoding).has_value()) {
      return ReplyError(context_, request, WrongContentEncoding(http.content_encoding),
                        {{"Accept-Encoding", std::string(kServedCodings)}});
    }
    if (http.announced_body_bytes > kMaxUnaskedBodyBytes) {
      limit = context_.api.gatekeeper.Check(request.tenant.get(), context_.api.clock.Now());
    }
  }
  if (!limit.ok()) {
    if (route->generates) CallDoor(context_.api).Refuse(limit);
    return ReplyError(context_, request, limit);
  }
  if (http.body_share != nullptr && http.answer.memory != nullptr) {
    http.body_share->ChargeTo(http.answer.memory->AccountOf(NameOf(request.tenant.get())));
  }
  return nullptr;
}

std::shared_ptr<Exchange> Gateway::Refuse(const Route* route, RoutedRequest& request) const {
  const HttpRequest& http = request.http;
  if (!IsKnownMethod(http.method)) {
    return ReplyError(context_, request,
                      {.http_status = 501,
                       .type = kInvalid,
                       .code = "method_not_implemented",
                       .message = fmt::format("there is no method {} here", Quote(http.method))});
  }
  if (http.path == kServer && http.method == "OPTIONS") {
    return Reply(request, {.content_type = "text/plain", .headers = AllowHeader(kServerMethods)},
                 "");
  }
  if (route == nullptr) {
    return ReplyError(context_, request,
                      {.http_status = 404,
                       .type = kInvalid,
                       .code = "not_found",
                       .message = fmt::format("there is nothing at {}; {}", Quote(http.path),
                                              routes_.HintFor(http.path))});
  }
  return ReplyError(context_, request,
                    {.http_status = 405,
                     .type = kInvalid,
                     .code = "method_not_allowed",
                     .message = fmt::format("this path takes {} only", route->methods)},
                    AllowHeader(route->methods));
}

}  // namespace lockstep::router
