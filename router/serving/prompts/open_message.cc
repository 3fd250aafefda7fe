#include "router/serving/prompts/open_message.h"

#include <cstring>

#include "common/status.h"
#include "router/text/unicode/white_space.h"

namespace lockstep::router {
namespace {

// In linear time, unlike std::string_view::find: the texts are a client's, and may be long and
// repeat themselves.
bool Contains(std::string_view text, std::string_view part) {
  return part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
}

}  // namespace

absl::StatusOr<std::string> CutAtOpenEnd(std::string_view rendered, std::string_view text) {
  const size_t end = rendered.rfind(TrimEnd(kOpenEnd));
  if (end == std::string_view::npos || !Contains(rendered, TrimStart(TrimEnd(text)))) {
    return InvalidArgument(
        "chat.continue_final_message: the chat template does not print the last message as it is, "
        "so it cannot be continued");
  }
  const bool kept_space = rendered.substr(end).starts_with(kOpenEnd);
  const std::string_view open = rendered.substr(0, end);
  return std::string(kept_space ? open : TrimEnd(open));
}

}  // namespace lockstep::router
