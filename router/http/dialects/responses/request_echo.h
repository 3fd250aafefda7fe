#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lockstep::router {

// The members of a response that repeat its request, `"a":1,"b":2`. `body` has passed all checks.
// `text`: of the body, for the order of keys.
std::string RequestEcho(const nlohmann::json& body, std::string_view text);

}  // namespace lockstep::router
