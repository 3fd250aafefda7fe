#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// What stands in a rendered chat, right after the text of its last message, so that the rendering
// can be cut there. The space shows whether the template trims that text.
inline std::string OpenEnd(std::string_view mark) { return std::string(mark) + ' '; }

// The rendering up to the end of the last message's text, which was followed by OpenEnd(mark): the
// message stays open, and the model continues it. If the template trimmed the text, white space
// before the cut goes as well. This is what transformers does for continue_final_message.
// INVALID_ARGUMENT if the template does not print the text as it is.
absl::StatusOr<std::string> CutAtOpenEnd(std::string_view rendered, std::string_view text,
                                         std::string_view mark);

}  // namespace lockstep::router
