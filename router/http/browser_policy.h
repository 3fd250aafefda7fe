#pragma once

#include <absl/status/status.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/messages/http_head.h"
#include "router/http/messages/http_request.h"

namespace lockstep::router {

// Decides which requests of web pages are allowed. A browser lets every page send simple requests
// to every address, also on its own machine. A page of another origin may read the answer, or send
// anything else, only if the server allows that origin (CORS, https://fetch.spec.whatwg.org).
// Immutable. Safe to use from any thread.
class BrowserPolicy {
 public:
  // `origins` that may read answers: "*" for all, or "scheme://host[:port]" each.
  explicit BrowserPolicy(std::vector<std::string> origins = {}) : origins_(std::move(origins)) {}
  // The error names the first entry that is no origin.
  static absl::Status CheckOrigins(std::span<const std::string> origins);

  // PERMISSION_DENIED for a request to a local listener that a foreign page may have caused. Its
  // Host is a name that the page's owner could have pointed at this machine (DNS rebinding), or its
  // Origin is neither of this machine nor allowed.
  absl::Status CheckLocal(const HttpRequest& request) const;
  // PERMISSION_DENIED for the preflight of a page that is not allowed. Browsers send a preflight to
  // ask which requests a page may send.
  absl::Status CheckPreflight(const HttpRequest& request) const;
  // Null unless it is a preflight. Call only if CheckPreflight let it pass.
  std::shared_ptr<Exchange> AnswerPreflight(const HttpRequest& request,
                                            std::shared_ptr<OutputSignal> signal) const;
  // The same answer with the headers that let an allowed page read it. Null stays null.
  std::shared_ptr<Exchange> Share(std::string_view origin,
                                  std::shared_ptr<Exchange> exchange) const;

 private:
  bool Allows(std::string_view origin) const;
  HttpHeaders HeadersFor(std::string_view origin) const;

  const std::vector<std::string> origins_;
};

// True for "application/json" and "application/...+json", with or without parameters. Pages cannot
// send these types to other origins without a preflight.
bool IsJsonContentType(std::string_view content_type);

}  // namespace lockstep::router
