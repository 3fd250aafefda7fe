#include "router/http/gateway.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/net/percent_encoding.h"
#include "common/runtime/process_metrics.h"
#include "common/status.h"
#include "common/version.h"
#include "router/engine/vllm_metrics.h"
#include "router/http/exchanges/body_decoder.h"
#include "router/http/exchanges/generate_exchange.h"
#include "router/http/dialects/openai/openai_dialects.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/exchanges/text_exchange.h"
#include "router/http/tokenizer_info.h"
#include "router/page/page_files.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";
// A tenant at its limit is refused before a larger body is read, at the price of its connection.
constexpr uint64_t kMaxUnaskedBodyBytes = 32 << 10;
constexpr std::array<std::string_view, 4> kPostPaths = {"/v1/completions", "/v1/chat/completions",
                                                        "/tokenize", "/detokenize"};
constexpr std::array<std::string_view, 8> kGetPaths = {"/v1/models",      "/health",     "/ready",
                                                       "/ping",           "/version",    "/metrics",
                                                       "/tokenizer_info", "/status.json"};

bool IsPostPath(std::string_view path) {
  return std::find(kPostPaths.begin(), kPostPaths.end(), path) != kPostPaths.end();
}

bool IsGetPath(std::string_view path) {
  return path.starts_with(kModelPrefix) || FindPageFile(path) != nullptr ||
         std::find(kGetPaths.begin(), kGetPaths.end(), path) != kGetPaths.end();
}

// Of the machinery in front of the router, which has no key and learns nothing; and the page, which
// is the same for everybody and asks for the key itself.
bool IsForEverybody(std::string_view path) {
  return path == "/health" || path == "/ready" || path == "/ping" || FindPageFile(path) != nullptr;
}

// The methods of a path, as the field Allow lists them. Empty: there is no such path.
std::string_view MethodsOf(std::string_view path) {
  if (path == "*") return "GET, HEAD, POST, OPTIONS";
  if (IsPostPath(path)) return "POST, OPTIONS";
  if (path == "/ping") return "GET, HEAD, POST, OPTIONS";
  return IsGetPath(path) ? "GET, HEAD, OPTIONS" : "";
}

bool Takes(std::string_view methods, std::string_view method) {
  const absl::string_view list(methods.data(), methods.size());
  const std::vector<absl::string_view> all = absl::StrSplit(list, ", ");
  return std::find(all.begin(), all.end(), absl::string_view(method.data(), method.size())) !=
         all.end();
}

// The methods that web servers know. RFC 9110 section 15.6.2 wants 501 for any other, and CONNECT
// is for proxies.
bool IsKnownMethod(std::string_view method) {
  constexpr std::string_view kKnown[] = {"GET",   "HEAD",    "POST",   "PUT",
                                         "PATCH", "OPTIONS", "DELETE", "TRACE"};
  return std::ranges::find(kKnown, method) != std::end(kKnown);
}

// Errors that no status has.
void ReplyError(const OpenAiError& error, ReplyExchange& exchange, HttpHeaders headers = {}) {
  std::string body;
  error.AppendJson(body);
  exchange.Reply({.status = error.http_status, .headers = std::move(headers)}, std::move(body));
}

// A form on a web page can post without anybody's permission, but never with the type of JSON. A
// program may leave the type out. A page in a browser may not: a request without a type needs no
// preflight.
bool MayBeJson(const HttpRequest& request) {
  if (request.content_type.empty()) return request.origin.empty();
  return IsJsonContentType(request.content_type);
}

OpenAiError WrongContentType(std::string_view content_type) {
  return {.http_status = 415,
          .type = "invalid_request_error",
          .code = "unsupported_media_type",
          .message = fmt::format("send the header \"Content-Type: application/json\", got {}",
                                 Quote(content_type))};
}

OpenAiError WrongContentEncoding(std::string_view content_encoding) {
  return {.http_status = 415,
          .type = "invalid_request_error",
          .code = "unsupported_media_type",
          .message = fmt::format("Content-Encoding: expected one of {}, or no such header, got {}",
                                 kServedCodings, Quote(content_encoding))};
}

// What to ask for instead of a path that is not there.
std::string HintFor(std::string_view path) {
  constexpr std::string_view kVersion = "/v1";
  const auto at = [](std::string_view there) { return fmt::format("it is at {}", Quote(there)); };
  if (path.ends_with('/') && !MethodsOf(path.substr(0, path.size() - 1)).empty()) {
    return at(path.substr(0, path.size() - 1));
  }
  const bool versioned = path.starts_with("/v1/");
  if (versioned && path != "/v1/" && !MethodsOf(path.substr(kVersion.size())).empty()) {
    return at(path.substr(kVersion.size()));
  }
  const std::string with_version = std::string(kVersion) + std::string(path);
  if (!versioned && !MethodsOf(with_version).empty()) return at(with_version);
  if (versioned) {
    return "of OpenAI's API there are /v1/chat/completions, /v1/completions and /v1/models";
  }
  return "OpenAI's API is under /v1";
}

OpenAiError UnknownPath(std::string_view path) {
  return {.http_status = 404,
          .type = "invalid_request_error",
          .code = "not_found",
          .message = fmt::format("there is nothing at {}; {}", Quote(path), HintFor(path))};
}

void ReplyStatus(const absl::Status& status, absl::Duration retry_after, ReplyExchange& exchange) {
  std::string body;
  OpenAiError::Of(status).AppendJson(body);
  exchange.Reply(ErrorHead(status, retry_after), std::move(body));
}

// What clients of older APIs look for: everybody may ask for samples, and for nothing else.
void WritePermission(std::string_view model, absl::Time created, JsonWriter& json) {
  json.BeginObject().Key("id").String(fmt::format("modelperm-{}", model));
  json.Key("object").String("model_permission").Key("created").Int(absl::ToUnixSeconds(created));
  json.Key("allow_create_engine").Bool(false).Key("allow_sampling").Bool(true);
  json.Key("allow_logprobs").Bool(true).Key("allow_search_indices").Bool(false);
  json.Key("allow_view").Bool(true).Key("allow_fine_tuning").Bool(false);
  json.Key("organization").String("*").Key("group").Null().Key("is_blocking").Bool(false);
  json.EndObject();
}

void WriteModel(const lockstep::v1::Model& model, absl::Time created, JsonWriter& json) {
  json.BeginObject().Key("id").String(model.id()).Key("object").String("model");
  json.Key("created").Int(absl::ToUnixSeconds(created)).Key("owned_by").String("lockstep");
  json.Key("root").String(model.id()).Key("parent").Null();
  json.Key("max_model_len").Int(model.max_context_tokens());
  if (model.weights_bytes() > 0) {
    json.Key("weights_dtype").String(model.weights_dtype());
    json.Key("weights_bytes").Int(static_cast<int64_t>(model.weights_bytes()));
  }
  json.Key("permission").BeginArray();
  WritePermission(model.id(), created, json);
  json.EndArray().EndObject();
}

std::string ModelList(const lockstep::v1::Model& model, absl::Time created) {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  WriteModel(model, created, json);
  json.EndArray().EndObject();
  return body;
}

std::string StatusBody(std::string_view status) {
  std::string body;
  JsonWriter(body).BeginObject().Key("status").String(status).EndObject();
  return body;
}

std::string VersionBody() {
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("version").String(Version()).Key("commit").String(GitCommit());
  json.EndObject();
  return body;
}

}  // namespace

std::shared_ptr<Exchange> Gateway::Handle(HttpRequest request,
                                          std::shared_ptr<OutputSignal> signal) {
  // Where keys are asked for, a page without one learns nothing.
  const bool local = request.loopback_only && !context_.gatekeeper.asks_for_keys();
  absl::Status status = local ? browsers_.CheckLocal(request) : absl::OkStatus();
  // A browser shows no key with its question.
  if (status.ok()) status = browsers_.CheckPreflight(request);
  if (!status.ok()) {
    const auto refusal = std::make_shared<ReplyExchange>(std::move(signal), request.answer);
    ReplyStatus(status, context_.config.retry_after, *refusal);
    return refusal;
  }
  if (auto preflight = browsers_.AnswerPreflight(request, signal)) return preflight;
  const std::string origin = request.origin;
  return browsers_.Share(origin, Answer(std::move(request), std::move(signal)));
}

std::shared_ptr<Exchange> Gateway::Answer(HttpRequest request,
                                          std::shared_ptr<OutputSignal> signal) {
  const bool for_everybody = IsForEverybody(request.path);
  absl::StatusOr<std::shared_ptr<const Tenant>> caller = nullptr;
  // Everybody's paths take no key, but their answers need no stranger's body either.
  if (!for_everybody || request.body_follows) {
    caller = context_.gatekeeper.Identify(request.authorization);
  }
  if (!caller.ok() && !for_everybody) {
    const auto refusal = std::make_shared<ReplyExchange>(std::move(signal), request.answer);
    ReplyStatus(caller.status(), context_.config.retry_after, *refusal);
    return refusal;
  }
  const bool is_post = IsPostPath(request.path);
  // Asked again with the body, as its key may be nobody's by then.
  if (caller.ok() && request.body_follows) {
    return RefuseBody(request, caller->get(), std::move(signal));
  }
  if (is_post && request.method == "POST") {
    return HandlePost(std::move(request), *std::move(caller), std::move(signal));
  }
  const auto exchange = std::make_shared<ReplyExchange>(std::move(signal), request.answer);
  const std::string_view methods = MethodsOf(request.path);
  HttpHeaders allow = {{"Allow", std::string(methods)}};
  if (!IsKnownMethod(request.method)) {
    ReplyError({.http_status = 501,
                .type = "invalid_request_error",
                .code = "method_not_implemented",
                .message = fmt::format("there is no method {} here", Quote(request.method))},
               *exchange);
  } else if (methods.empty()) {
    ReplyError(UnknownPath(request.path), *exchange);
  } else if (!Takes(methods, request.method)) {
    ReplyError({.http_status = 405,
                .type = "invalid_request_error",
                .code = "method_not_allowed",
                .message = fmt::format("this path takes {} only", methods)},
               *exchange, std::move(allow));
  } else if (request.method == "OPTIONS") {
    exchange->Reply({.content_type = "text/plain", .headers = std::move(allow)}, "");
  } else {
    HandleGet(request, caller.ok() ? caller->get() : nullptr, *exchange);
  }
  return exchange;
}

std::shared_ptr<Exchange> Gateway::RefuseBody(const HttpRequest& request, const Tenant* tenant,
                                              std::shared_ptr<OutputSignal> signal) {
  const bool is_post = IsPostPath(request.path);
  const auto refuse = [&](const OpenAiError& error, HttpHeaders headers = {}) {
    const auto refusal = std::make_shared<ReplyExchange>(std::move(signal), request.answer);
    ReplyError(error, *refusal, std::move(headers));
    return refusal;
  };
  if (is_post && !MayBeJson(request)) return refuse(WrongContentType(request.content_type));
  if (is_post && !ParseContentCoding(request.content_encoding).has_value()) {
    return refuse(WrongContentEncoding(request.content_encoding),
                  {{"Accept-Encoding", std::string(kServedCodings)}});
  }
  const bool asked_now = is_post && request.announced_body_bytes > kMaxUnaskedBodyBytes;
  const absl::Status limit =
      asked_now ? context_.gatekeeper.Check(tenant, context_.clock.Now()) : absl::OkStatus();
  if (limit.ok()) {
    if (request.body_share != nullptr && request.answer.memory != nullptr) {
      request.body_share->ChargeTo(request.answer.memory->AccountOf(NameOf(tenant)));
    }
    return nullptr;
  }
  if (request.path.starts_with("/v1/")) {
    RouterMetrics::At(context_.metrics.requests_total, limit.code()).Increment();
  }
  const auto refusal = std::make_shared<ReplyExchange>(std::move(signal), request.answer);
  ReplyStatus(limit, context_.config.retry_after, *refusal);
  return refusal;
}

std::shared_ptr<Exchange> Gateway::HandlePost(HttpRequest request,
                                              std::shared_ptr<const Tenant> tenant,
                                              std::shared_ptr<OutputSignal> signal) {
  if (request.path == "/v1/completions") {
    return GenerateExchange::Start(context_, {CompletionDialect(), std::move(tenant)},
                                   std::move(request), std::move(signal));
  }
  if (request.path == "/v1/chat/completions") {
    return GenerateExchange::Start(context_, {ChatDialect(), std::move(tenant)},
                                   std::move(request), std::move(signal));
  }
  const TextKind kind = request.path == "/tokenize" ? TextKind::kTokenize : TextKind::kDetokenize;
  return TextExchange::Start(context_, {kind, std::move(tenant)}, std::move(request),
                             std::move(signal));
}

void Gateway::HandleGet(const HttpRequest& request, const Tenant* tenant, ReplyExchange& exchange) {
  if (const PageFile* file = FindPageFile(request.path)) return ReplyPage(*file, exchange);
  if (request.path == "/v1/models" || request.path == kModelPrefix) {
    return exchange.Reply({}, ModelList(DescribeModel(context_), context_.started));
  }
  if (request.path.starts_with(kModelPrefix)) {
    return ReplyModel(PercentDecoded(request.path.substr(kModelPrefix.size())), exchange);
  }
  if (request.path == "/tokenizer_info") {
    return exchange.Reply({}, TokenizerInfo(*context_.model.tokenizer, context_.Facts()));
  }
  if (request.path == "/status.json") {
    const bool for_tenants = context_.gatekeeper.asks_for_keys();
    return exchange.Reply({}, for_tenants ? status_.OfTenant(NameOf(tenant)) : status_.OfFleet());
  }
  if (request.path == "/version") return exchange.Reply({}, VersionBody());
  if (request.path == "/metrics") {
    if (context_.gatekeeper.asks_for_keys()) {
      return ReplyStatus(absl::PermissionDeniedError("the admin port has the metrics"),
                         context_.config.retry_after, exchange);
    }
    return exchange.Reply({.content_type = "text/plain; version=0.0.4; charset=utf-8"},
                          MetricsText(VllmMetrics(registry_)));
  }
  const bool accepting = context_.accepting();
  constexpr std::string_view kDeaf = "no connections are accepted";
  // The process and this thread of it are alive; whether requests are taken is /ready's to say.
  if (request.path == "/health") {
    return exchange.Reply({.status = accepting ? 200 : 503}, StatusBody(accepting ? "ok" : kDeaf));
  }
  if (request.path == "/ping") {
    return exchange.Reply({.status = accepting ? 200 : 503, .content_type = "text/plain"}, "");
  }
  const bool ready = context_.engine.ready() && accepting;
  const std::string_view why = context_.engine.draining() ? "draining"
                               : accepting                ? "no worker"
                                                          : kDeaf;
  exchange.Reply({.status = ready ? 200 : 503}, StatusBody(ready ? "ready" : why));
}

void Gateway::ReplyPage(const PageFile& file, ReplyExchange& exchange) const {
  if (!context_.config.page) {
    return ReplyError({.http_status = 404,
                       .type = "invalid_request_error",
                       .code = "not_found",
                       .message = "the page is turned off (--no-page)"},
                      exchange);
  }
  HttpHead head{.content_type = file.content_type};
  head.headers = {{"Content-Security-Policy", std::string(kPageSecurityPolicy)},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Cache-Control", "no-cache"}};
  exchange.Reply(std::move(head), std::string(file.text));
}

void Gateway::ReplyModel(const std::string& id, ReplyExchange& exchange) const {
  lockstep::v1::GetModelRequest named;
  named.set_model(id);
  if (const absl::Status status = CheckModelRequest(context_, named); !status.ok()) {
    return ReplyStatus(status, context_.config.retry_after, exchange);
  }
  std::string body;
  JsonWriter json(body);
  WriteModel(DescribeModel(context_), context_.started, json);
  exchange.Reply({}, std::move(body));
}

}  // namespace lockstep::router
