#include <string>
#include <utility>
#include <vector>

#include "router/http/dialects/openai/openai_error.h"
#include "router/http/routes/route.h"
#include "router/page/page_files.h"

namespace lockstep::router {
namespace {

std::shared_ptr<Exchange> AnswerPage(const PageFile& file, const RouteContext& context,
                                     RoutedRequest request) {
  if (!context.api.config.page) {
    return ReplyError(context, request,
                      OpenAiError{.http_status = 404,
                                  .type = "invalid_request_error",
                                  .code = "not_found",
                                  .message = "the page is turned off (--no-page)"});
  }
  HttpHead head{.content_type = file.content_type};
  head.headers = {{"Content-Security-Policy", std::string(kPageSecurityPolicy)},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Cache-Control", "no-cache"}};
  return Reply(request, std::move(head), std::string(file.text));
}

}  // namespace

std::vector<Route> PageRoutes() {
  std::vector<Route> routes;
  for (const PageFile& file : PageFiles()) {
    routes.push_back({.path = std::string(file.path),
                      .audience = Audience::kEverybody,
                      .answer = [&file](RouteContext& context, RoutedRequest request) {
                        return AnswerPage(file, context, std::move(request));
                      }});
  }
  return routes;
}

}  // namespace lockstep::router
