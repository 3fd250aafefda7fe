#include "common/shown_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/utf8.h"

namespace lockstep {
namespace {

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// U+0080 to U+009F are controls as well: C2 80 to C2 9F.
bool IsHighControl(std::string_view character) {
  return character.size() == 2 && character[0] == '\xc2' &&
         static_cast<unsigned char>(character[1]) < 0xa0;
}

// The character at `at`, or one byte if there is no valid character.
std::string_view UnitAt(std::string_view text, size_t at) {
  return text.substr(at, std::max<size_t>(CharacterBytes(text, at), 1));
}

std::string EscapedUnit(std::string_view unit) {
  if (unit.size() > 1 || IsAscii(unit[0])) return EscapeControlCharacters(unit);
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(unit[0]));
}

// The beginning of `text`, escaped, and true if there is more text.
std::pair<std::string, bool> Beginning(std::string_view text) {
  std::string shown;
  size_t size = 0;  // how many bytes of `text` are shown
  while (size < text.size()) {
    const std::string_view unit = UnitAt(text, size);
    const std::string next = EscapedUnit(unit);
    if (shown.size() + next.size() > kMaxQuotedBytes) break;
    shown += next;
    size += unit.size();
  }
  return {shown, size < text.size()};
}

}  // namespace

std::string EscapeControlCharacters(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\r') {
      escaped += "\\r";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      escaped += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      escaped += fmt::format("\\xc2\\x{:02x}", next);
      ++i;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Quote(std::string_view text) {
  const auto [shown, cut] = Beginning(text);
  return fmt::format("\"{}\"{}", shown, cut ? fmt::format("... ({} bytes)", text.size()) : "");
}

std::string ShownName(std::string_view name) {
  const auto [shown, cut] = Beginning(name);
  return cut ? fmt::format("{}... ({} bytes)", shown, name.size()) : shown;
}

std::string ShownNumbers(std::span<const uint64_t> numbers) {
  constexpr size_t kMaxShown = 16;
  if (numbers.size() <= kMaxShown) return fmt::format("{}", fmt::join(numbers, ", "));
  return fmt::format("{}, ... ({} numbers)", fmt::join(numbers.first(kMaxShown), ", "),
                     numbers.size());
}

std::string WithoutControls(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view unit = UnitAt(text, at);
    at += unit.size();
    const auto byte = static_cast<unsigned char>(unit[0]);
    const bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (!is_control && !IsHighControl(unit)) out += unit;
  }
  return out;
}

std::string OneLine(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view unit = UnitAt(text, at);
    at += unit.size();
    const bool is_break = unit[0] == '\n' || unit[0] == '\t' || unit[0] == '\r';
    const std::string shown = is_break ? " " : WithoutControls(unit);
    if (out.size() + shown.size() > max_bytes) break;
    out += shown;
  }
  return out;
}

}  // namespace lockstep
