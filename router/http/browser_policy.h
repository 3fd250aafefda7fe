#pragma once

#include <absl/status/status.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"

namespace lockstep::router {

// What web pages may ask of the router. A browser lets every page send simple requests to every
// address, those of its own machine included. A page of another origin may read the answer, or send
// anything else, only if the server allows that origin (CORS, https://fetch.spec.whatwg.org).
// Immutable; safe to use from any thread.
class BrowserPolicy {
 public:
  // `origins` may read answers: "*" for all, or "scheme://host[:port]" each.
  explicit BrowserPolicy(std::vector<std::string> origins = {}) : origins_(std::move(origins)) {}
  // Names the first one that is no origin.
  static absl::Status CheckOrigins(std::span<const std::string> origins);

  // PERMISSION_DENIED for a request to this machine alone that a foreign page may have caused: its
  // Host is a name that a page's owner may have pointed at this machine (DNS rebinding), or its
  // Origin is neither of this machine nor allowed.
  absl::Status CheckLocal(const HttpRequest& request) const;
  // PERMISSION_DENIED for the preflight of a page that is not allowed. A browser sends a preflight
  // to ask what a page may send.
  absl::Status CheckPreflight(const HttpRequest& request) const;
  // Null unless it is a preflight. Call only if CheckPreflight let it pass.
  std::shared_ptr<Exchange> AnswerPreflight(const HttpRequest& request,
                                            std::shared_ptr<OutputSignal> signal) const;
  // The same answer, with the headers that let an allowed page read it. Null stays null.
  std::shared_ptr<Exchange> Share(std::string_view origin,
                                  std::shared_ptr<Exchange> exchange) const;

 private:
  bool Allows(std::string_view origin) const;
  HttpHeaders HeadersFor(std::string_view origin) const;

  const std::vector<std::string> origins_;
};

// Whether it says that a body is JSON: "application/json" or "application/...+json", with or
// without parameters. Pages cannot send these to other origins unasked.
bool IsJsonContentType(std::string_view content_type);

}  // namespace lockstep::router
