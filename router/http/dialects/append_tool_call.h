#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::router {

// Appends a call to an array in the form of OpenAI's `tool_calls`. An empty text becomes such an
// array. `arguments`: the text of their JSON.
void AppendToolCall(std::optional<std::string_view> id, std::string_view name,
                    std::string_view arguments, std::string& calls);

}  // namespace lockstep::router
