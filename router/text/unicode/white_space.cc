#include "router/text/unicode/white_space.h"

#include <algorithm>

#include "router/text/unicode/char_class.h"
#include "router/text/unicode/utf8.h"

namespace lockstep::router {
namespace {

bool IsSpace(char32_t c) {
  if (c >= 0x1C && c <= 0x1F) return true;
  return std::any_of(kSpaceRanges.begin(), kSpaceRanges.end(),
                     [c](const CharRange& range) { return c >= range.first && c <= range.last; });
}

}  // namespace

std::string_view TrimStart(std::string_view text) {
  while (!text.empty()) {
    const DecodedChar first = DecodeUtf8(text, 0);
    if (!IsSpace(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  return text;
}

std::string_view TrimEnd(std::string_view text) {
  while (!text.empty()) {
    const size_t last = PreviousCharOffset(text, text.size());
    if (!IsSpace(DecodeUtf8(text, last).code_point)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace lockstep::router
