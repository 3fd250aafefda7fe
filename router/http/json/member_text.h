#pragma once

#include <string_view>

namespace lockstep::router {

// The text of one member's value in valid JSON, for readers that need the order of keys. `object`:
// the text of any value. "" if it is no object or has no such member.
std::string_view MemberText(std::string_view object, std::string_view key);

}  // namespace lockstep::router
