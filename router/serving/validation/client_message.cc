#include "router/serving/validation/client_message.h"

#include <string_view>

#include "router/text/unicode/utf8.h"

namespace lockstep::router {

std::string ClientMessage(const absl::Status& status) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  constexpr std::string_view kCut = "...";
  std::string_view rest(status.message().data(), status.message().size());
  std::string message;
  size_t end = 0;  // what stays if the message must be cut
  while (!rest.empty()) {
    const Utf8Unit unit = NextUtf8Unit(rest);
    message += unit.kind == Utf8Kind::kValid ? rest.substr(0, unit.length) : kReplacement;
    rest.remove_prefix(unit.length);
    if (message.size() > kMaxClientMessageBytes) {
      message.resize(end);
      message += kCut;
      break;
    }
    if (message.size() + kCut.size() <= kMaxClientMessageBytes) end = message.size();
  }
  return message;
}

}  // namespace lockstep::router
