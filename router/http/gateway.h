#pragma once

#include <prometheus/registry.h>

#include <memory>
#include <utility>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/browser_policy.h"
#include "router/http/exchanges/reply_exchange.h"
#include "router/http/status_json.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

struct PageFile;  // router/page/page_files.h

// From paths to exchanges; knows nothing of sockets. Where keys are asked for, everything but
// /health, /ready, /ping and the page is for tenants only, and /metrics, which tells of all
// tenants, for none of them; whoever shows no good key, or is at a limit and announces a large
// body, is answered before any of it is read, others get null for that (ConnectionContext::handle).
// Safe to use from any thread.
//   POST /v1/completions, /v1/chat/completions, /tokenize, /detokenize
//   GET  /v1/models, /v1/models/{id}, /health, /ready, /ping, /version, /metrics, /tokenizer_info,
//        /status.json, and the page: /, /page.css, /page.js
//   POST /ping
//   OPTIONS of each of these, and of * as a whole: the methods there are
class Gateway {
 public:
  // Context and registry outlive the object and all of its exchanges.
  Gateway(ApiContext& context, const prometheus::Registry& registry,
          BrowserPolicy browsers = BrowserPolicy())
      : context_(context), registry_(registry), browsers_(std::move(browsers)), status_(context) {}

  std::shared_ptr<Exchange> Handle(HttpRequest request, std::shared_ptr<OutputSignal> signal);

  ApiContext& context() { return context_; }

 private:
  // Whatever page asks.
  std::shared_ptr<Exchange> Answer(HttpRequest request, std::shared_ptr<OutputSignal> signal);
  // Of the header alone. Null: the body may be read.
  std::shared_ptr<Exchange> RefuseBody(const HttpRequest& request, const Tenant* tenant,
                                       std::shared_ptr<OutputSignal> signal);
  std::shared_ptr<Exchange> HandlePost(HttpRequest request, std::shared_ptr<const Tenant> tenant,
                                       std::shared_ptr<OutputSignal> signal);
  void HandleGet(const HttpRequest& request, const Tenant* tenant, ReplyExchange& exchange);
  void ReplyPage(const PageFile& file, ReplyExchange& exchange) const;
  void ReplyModel(const std::string& id, ReplyExchange& exchange) const;

  ApiContext& context_;
  const prometheus::Registry& registry_;
  const BrowserPolicy browsers_;
  StatusJson status_;
};

}  // namespace lockstep::router
