#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// Whether the schema allows only strings, so that text can stream without knowing its end.
bool IsOnlyString(const std::vector<std::string>& types);

// The JSON of a value that a model wrote as plain text. `types`: what the schema allows, see
// ToolList::TypesOf; empty: anything. Text that is no JSON of an allowed type becomes a string.
// Python's True, False and None are accepted.
std::string ValueToJson(std::string_view text, const std::vector<std::string>& types);

}  // namespace lockstep::router
