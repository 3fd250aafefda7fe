#include <utility>
#include <vector>

#include "router/http/dialects/anthropic/messages_dialect.h"
#include "router/http/dialects/openai/openai_dialects.h"
#include "router/http/dialects/responses/responses_dialect.h"
#include "router/http/exchanges/generate_exchange.h"
#include "router/http/routes/route.h"

namespace lockstep::router {

Route GenerationRoute(std::string path, const Dialect& dialect) {
  return {.path = std::move(path),
          .methods = "POST, OPTIONS",
          .reads_json = true,
          .generates = true,
          .has_metric = true,
          .dialect = &dialect,
          .answer = [&dialect](RouteContext& context, RoutedRequest request) {
            return GenerateExchange::Start(context.api, dialect, std::move(request.tenant),
                                           std::move(request.http), std::move(request.signal));
          }};
}

// The dialects and their paths.
std::vector<Route> GenerationRoutes() {
  return {GenerationRoute("/v1/completions", CompletionDialect()),
          GenerationRoute("/v1/chat/completions", ChatDialect()),
          GenerationRoute("/v1/responses", ResponsesDialect()),
          GenerationRoute("/v1/messages", MessagesDialect())};
}

}  // namespace lockstep::router
