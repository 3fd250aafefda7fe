#include "common/json/json_text.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/json/json.h"

namespace lockstep {
namespace {

constexpr std::string_view kJsonSpace = " \t\r\n";
constexpr std::string_view kJsonByteOrderMark = "\xEF\xBB\xBF";

// Moves over the values of valid JSON. Keeps no stack, so nesting costs nothing.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {
    if (rest_.starts_with(kJsonByteOrderMark)) rest_.remove_prefix(kJsonByteOrderMark.size());
  }

  // Moves past this character if it comes next.
  bool Take(char c) {
    SkipSpace();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Moves past the next value, or key, and returns its text.
  std::string_view TakeValue() {
    SkipSpace();
    size_t depth = 0;
    size_t at = 0;
    while (at < rest_.size()) {
      const char c = rest_[at];
      if (c == '"') {
        at = EndOfString(at);
        if (depth == 0) break;
        continue;
      }
      if (depth == 0 && (c == ',' || c == ':' || c == '}' || c == ']' || IsSpace(c))) break;
      ++at;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) break;
    }
    const std::string_view value = rest_.substr(0, at);
    rest_.remove_prefix(at);
    return value;
  }

 private:
  static bool IsSpace(char c) { return kJsonSpace.find(c) != std::string_view::npos; }
  void SkipSpace() {
    const size_t at = rest_.find_first_not_of(kJsonSpace);
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at);
  }
  size_t EndOfString(size_t at) const {
    for (++at; at < rest_.size() && rest_[at] != '"'; ++at) {
      if (rest_[at] == '\\') ++at;
    }
    return std::min(at + 1, rest_.size());
  }

  std::string_view rest_;
};

bool IsKey(std::string_view quoted, std::string_view key) {
  if (quoted.find('\\') == std::string_view::npos) {
    return quoted.size() == key.size() + 2 && quoted.substr(1, key.size()) == key;
  }
  const nlohmann::json decoded = nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  return decoded.is_string() && decoded.get_ref<const std::string&>() == key;
}

}  // namespace

std::string_view JsonTextOfMember(std::string_view object, std::string_view key) {
  TextCursor cursor(object);
  if (!cursor.Take('{') || cursor.Take('}')) return {};
  do {
    const std::string_view quoted = cursor.TakeValue();
    cursor.Take(':');
    const std::string_view value = cursor.TakeValue();
    if (IsKey(quoted, key)) return value;
  } while (cursor.Take(','));
  return {};
}

std::vector<std::string_view> JsonTextsOfElements(std::string_view array) {
  std::vector<std::string_view> texts;
  TextCursor cursor(array);
  if (!cursor.Take('[') || cursor.Take(']')) return texts;
  do {
    texts.push_back(cursor.TakeValue());
  } while (cursor.Take(','));
  return texts;
}

std::string CompactJson(std::string_view text) {
  if (text.starts_with(kJsonByteOrderMark)) text.remove_prefix(kJsonByteOrderMark.size());
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!in_string && kJsonSpace.find(c) != std::string_view::npos) continue;
    out += c;
    if (in_string && c == '\\' && i + 1 < text.size()) {
      out += text[++i];
    } else if (c == '"') {
      in_string = !in_string;
    }
  }
  return out;
}

}  // namespace lockstep
