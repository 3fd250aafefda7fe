#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::router {

inline constexpr size_t kMaxToolCallsPerMessage = 1024;
// Of the arguments of one call, as an object.
inline constexpr size_t kMaxArgumentsDepth = 64;
inline constexpr size_t kMaxArgumentsValues = 100'000;

// The calls of one message, as chat templates want them. `json`: an array in the form of OpenAI's
// `tool_calls`, where `function.arguments` is a text. The result has the arguments as an object if
// their text is one within the limits, as in vLLM; other texts stay, and no text is {}. Members of
// arguments keep their order. Members of calls that are not OpenAI's are left out. INVALID_ARGUMENT
// begins with `path`.
absl::StatusOr<std::string> ToolCallsForTemplate(std::string_view json, const std::string& path);

}  // namespace lockstep::router
