#include "router/http/browser_policy.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/net/http_host.h"
#include "common/status.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kAll = "*";
constexpr std::string_view kSchemeEnd = "://";

std::string Lower(std::string_view text) {
  return absl::AsciiStrToLower(absl::string_view(text.data(), text.size()));
}

bool IsAuthorityOfThisMachine(std::string_view authority) {
  const std::optional<HttpHost> host = ParseHttpHost(authority);
  return host.has_value() && IsThisMachine(*host);
}

bool IsOriginOfThisMachine(std::string_view origin) {
  const std::string_view http = "http://";
  const std::string_view https = "https://";
  if (origin.starts_with(http)) return IsAuthorityOfThisMachine(origin.substr(http.size()));
  return origin.starts_with(https) && IsAuthorityOfThisMachine(origin.substr(https.size()));
}

bool IsOrigin(std::string_view text) {
  const size_t scheme_end = text.find(kSchemeEnd);
  if (scheme_end == 0 || scheme_end == std::string_view::npos) return false;
  const std::string_view scheme = text.substr(0, scheme_end);
  const bool plain = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
  });
  return plain && ParseHttpHost(text.substr(scheme_end + kSchemeEnd.size())).has_value();
}

// A page's browser sends this before the actual request.
bool IsPreflight(const HttpRequest& request) {
  return request.method == "OPTIONS" && !request.origin.empty();
}

absl::Status PageNotAllowed(std::string_view origin) {
  return MakeError(absl::StatusCode::kPermissionDenied,
                   "a page of {} asks: --cors-origins of the router does not list it",
                   Quote(origin));
}

class SharedExchange final : public Exchange {
 public:
  SharedExchange(std::shared_ptr<Exchange> exchange, HttpHeaders headers)
      : exchange_(std::move(exchange)), headers_(std::move(headers)) {}

  Output Take() override {
    Output output = exchange_->Take();
    if (output.head.has_value()) AddFields(headers_, *output.head);
    return output;
  }
  void OnWritten() override { exchange_->OnWritten(); }
  void OnClosed() override { exchange_->OnClosed(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const HttpHeaders headers_;
};

}  // namespace

absl::Status BrowserPolicy::CheckOrigins(std::span<const std::string> origins) {
  for (const std::string& origin : origins) {
    if (origin == kAll || IsOrigin(origin)) continue;
    return InvalidArgument("expected * or scheme://host[:port], got {}", Quote(origin));
  }
  return absl::OkStatus();
}

absl::Status BrowserPolicy::CheckLocal(const HttpRequest& request) const {
  if (!request.host.empty() && !IsAuthorityOfThisMachine(request.host)) {
    return MakeError(absl::StatusCode::kPermissionDenied,
                     "the request names the host {}: expected localhost or a loopback address here",
                     Quote(request.host));
  }
  if (request.origin.empty() || IsOriginOfThisMachine(request.origin) || Allows(request.origin)) {
    return absl::OkStatus();
  }
  return PageNotAllowed(request.origin);
}

absl::Status BrowserPolicy::CheckPreflight(const HttpRequest& request) const {
  if (!IsPreflight(request) || Allows(request.origin)) return absl::OkStatus();
  return PageNotAllowed(request.origin);
}

std::shared_ptr<Exchange> BrowserPolicy::AnswerPreflight(
    const HttpRequest& request, std::shared_ptr<OutputSignal> signal) const {
  if (!IsPreflight(request)) return nullptr;
  HttpHead head{.content_type = "text/plain", .headers = HeadersFor(request.origin)};
  head.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  // "*" covers all fields except Authorization.
  head.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, *");
  head.headers.emplace_back("Access-Control-Max-Age", "600");
  const auto reply = std::make_shared<ReplyExchange>(std::move(signal));
  reply->Reply(std::move(head), "");
  return reply;
}

std::shared_ptr<Exchange> BrowserPolicy::Share(std::string_view origin,
                                               std::shared_ptr<Exchange> exchange) const {
  if (exchange == nullptr || !Allows(origin)) return exchange;
  return std::make_shared<SharedExchange>(std::move(exchange), HeadersFor(origin));
}

bool BrowserPolicy::Allows(std::string_view origin) const {
  if (origin.empty()) return false;
  return std::any_of(origins_.begin(), origins_.end(), [origin](const std::string& allowed) {
    return allowed == kAll ||
           absl::EqualsIgnoreCase(allowed, absl::string_view(origin.data(), origin.size()));
  });
}

// Without Access-Control-Allow-Credentials: the page itself sends keys, and cookies are not used.
HttpHeaders BrowserPolicy::HeadersFor(std::string_view origin) const {
  const bool all = std::find(origins_.begin(), origins_.end(), kAll) != origins_.end();
  HttpHeaders headers = {
      {"Access-Control-Allow-Origin", std::string(all ? kAll : origin)},
      {"Access-Control-Expose-Headers",
       "X-Request-Id, Request-Id, X-Lockstep-Ignored-Fields, Retry-After, Retry-After-Ms"}};
  if (!all) headers.emplace_back("Vary", "Origin");
  return headers;
}

bool IsJsonContentType(std::string_view content_type) {
  const std::string type = Lower(content_type.substr(0, content_type.find(';')));
  const absl::string_view essence = absl::StripAsciiWhitespace(type);
  return essence == "application/json" ||
         (absl::StartsWith(essence, "application/") && absl::EndsWith(essence, "+json"));
}

}  // namespace lockstep::router
