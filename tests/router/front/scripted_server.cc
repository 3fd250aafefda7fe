#include "tests/router/front/scripted_server.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "router/front/serve_connection.h"
#include "tests/router/front/scripted_gateway.h"

namespace lockstep::testing {

ScriptedServer::ScriptedServer(const router::ConnectionLimits& limits, const TlsFiles& tls)
    : http_{.handle = ScriptedAnswer,
            .metrics = metrics_,
            .memory = memory_,
            .max_body_bytes = limits.max_body_bytes},
      context_{.open_stream =
                   [this](const router::StreamRequest& request,
                          std::shared_ptr<router::OutputSignal> signal) {
                     return router::OpenHttpStream(http_, request, std::move(signal));
                   },
               .draining = [] { return false; },
               .limits = limits,
               .metrics = metrics_,
               .memory = memory_},
      listener_(io_, [this](boost::asio::ip::tcp::socket socket) {
        router::ServeConnection(std::move(socket), tls_ == nullptr ? nullptr : tls_->Current(),
                                context_);
      }) {
  if (tls.enabled()) {
    auto loaded = router::ServerTls::Load(tls);
    LOCKSTEP_CHECK(loaded.ok(), "{}", Message(loaded.status()));
    tls_ = *std::move(loaded);
  }
  const auto port = listener_.Listen({.host = "127.0.0.1", .port = 0});
  LOCKSTEP_CHECK(port.ok(), "{}", Message(port.status()));
  port_ = *port;
  listener_.Accept();
  thread_ = NamedThread("http", [this] { io_.run(); });
}

double ScriptedServer::CountOf(const char* route, const char* code) const {
  for (const auto& family : registry_.Collect()) {
    if (family.name != "lockstep_router_http_requests_total") continue;
    for (const auto& metric : family.metric) {
      bool same = true;
      for (const auto& label : metric.label) {
        same = same && (label.name != "route" || label.value == route) &&
               (label.name != "code" || label.value == code);
      }
      if (same) return metric.counter.value;
    }
  }
  return -1;
}

router::ConnectionLimits ScriptedServer::Limits() {
  return {.max_body_bytes = size_t{1} << 20,
          .header_timeout = absl::Minutes(1),
          .body_timeout = absl::Minutes(1),
          .idle_timeout = absl::Minutes(1),
          .write_timeout = absl::Minutes(1)};
}

}  // namespace lockstep::testing
