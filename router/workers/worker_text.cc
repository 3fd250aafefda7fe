#include "router/workers/worker_text.h"

#include <fmt/format.h>

namespace lockstep::router {

std::string QuoteWorker(std::string_view text) {
  constexpr size_t kMaxShownBytes = 100;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMaxShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  if (text.size() > kMaxShownBytes) quoted += fmt::format("... ({} bytes)", text.size());
  return quoted;
}

}  // namespace lockstep::router
