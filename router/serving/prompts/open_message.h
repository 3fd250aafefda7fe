#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace lockstep::router {

// What to put right after the last message's text in a chat, so that the rendering can be cut
// there. The space shows whether the template trims the text. transformers uses the same words.
inline constexpr std::string_view kOpenEnd = "CONTINUE_FINAL_MESSAGE_TAG ";

// Cuts the rendering after the text of the last message, which was followed by kOpenEnd. So the
// message stays open, and the model continues it. If the template trimmed the text, white space
// before the cut is dropped too. transformers does the same for continue_final_message.
// INVALID_ARGUMENT if the template does not print the text as it is.
absl::StatusOr<std::string> CutAtOpenEnd(std::string_view rendered, std::string_view text);

}  // namespace lockstep::router
