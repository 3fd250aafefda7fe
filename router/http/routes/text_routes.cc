#include <utility>
#include <vector>

#include "router/http/dialects/anthropic/messages_dialect.h"
#include "router/http/exchanges/text_exchange.h"
#include "router/http/routes/route.h"

namespace lockstep::router {
namespace {

Route TextRoute(std::string path, TextKind kind, const Dialect* dialect = nullptr) {
  return {.path = std::move(path),
          .methods = "POST, OPTIONS",
          .reads_json = true,
          .has_metric = true,
          .dialect = dialect,
          .answer = [kind](RouteContext& context, RoutedRequest request) {
            return TextExchange::Start(context.api, kind, std::move(request.tenant),
                                       std::move(request.http), std::move(request.signal));
          }};
}

}  // namespace

std::vector<Route> TextRoutes() {
  return {TextRoute("/tokenize", TextKind::kTokenize),
          TextRoute("/detokenize", TextKind::kDetokenize),
          TextRoute("/v1/messages/count_tokens", TextKind::kCountTokens, &MessagesDialect())};
}

}  // namespace lockstep::router
