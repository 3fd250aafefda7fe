#pragma once

#include <string_view>

// Trims white space from valid UTF-8 as Python's str.strip does: Unicode's White_Space, and U+001C
// to U+001F.
namespace lockstep::router {

std::string_view TrimStart(std::string_view text);
std::string_view TrimEnd(std::string_view text);

}  // namespace lockstep::router
