#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::router {

// Texts of members with objects, in the client's order of keys; "" for a member that is absent.
struct EchoedTexts {
  std::string_view tools = {};
  std::string_view text = {};
  std::string_view tool_choice = {};
  std::string_view metadata = {};
};

// The members of a response that repeat its request, `"a":1,"b":2`. `body` has passed all checks.
std::string RequestEcho(const nlohmann::json& body, const EchoedTexts& texts);

}  // namespace lockstep::router
