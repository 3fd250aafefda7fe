#pragma once

#include <string_view>

// White space at the ends of valid UTF-8, as Python's str.strip sees it: Unicode's White_Space and
// U+001C to U+001F.
namespace lockstep::router {

std::string_view TrimStart(std::string_view text);
std::string_view TrimEnd(std::string_view text);

}  // namespace lockstep::router
