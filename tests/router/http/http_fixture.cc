#include "tests/router/http/http_fixture.h"

namespace lockstep::testing {

std::string HttpServingTest::Text(const HttpResponse& response) {
  if (!response.body.starts_with("data: ")) return Json(response)["choices"][0]["text"];
  std::string text;
  for (const std::string& event : response.Events()) {
    if (event == "[DONE]") break;
    const nlohmann::json chunk = nlohmann::json::parse(event);
    if (chunk["choices"].empty()) continue;
    const nlohmann::json& choice = chunk["choices"][0];
    text += choice.contains("delta") ? choice["delta"].value("content", "")
                                     : choice["text"].get<std::string>();
  }
  return text;
}

}  // namespace lockstep::testing
