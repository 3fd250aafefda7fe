#include "common/json/json_text.h"

#include <cstddef>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

constexpr std::string_view kMarkBeforeText = "\xEF\xBB\xBF";

bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Walks over the values of a valid text.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {
    if (text_.starts_with(kMarkBeforeText)) at_ = kMarkBeforeText.size();
    SkipSpace();
  }

  bool done() const { return at_ >= text_.size(); }
  char Peek() const { return done() ? '\0' : text_[at_]; }
  // Skips one character and the white space behind it.
  void SkipMark() {
    ++at_;
    SkipSpace();
  }
  // The text of the value here. Skips it and the white space behind it.
  std::string_view TakeValue() {
    const size_t begin = at_;
    size_t depth = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {
        SkipWord();
      }
    } while (depth > 0 && !done());
    const std::string_view value = text_.substr(begin, at_ - begin);
    SkipSpace();
    return value;
  }

 private:
  void SkipSpace() {
    while (!done() && IsJsonSpace(text_[at_])) ++at_;
  }
  void SkipString() {
    ++at_;
    while (!done() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
  }
  // A number, true, false or null.
  void SkipWord() {
    while (!done() && !IsJsonSpace(text_[at_]) && text_[at_] != ',' && text_[at_] != '}' &&
           text_[at_] != ']') {
      ++at_;
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// `quoted`: a key as it is written, with its quotes.
bool IsKey(std::string_view quoted, std::string_view key) {
  if (quoted.find('\\') == std::string_view::npos) {
    return quoted.substr(1, quoted.size() - 2) == key;
  }
  return nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false) == key;
}

}  // namespace

std::string_view JsonTextOfMember(std::string_view object, std::string_view key) {
  JsonCursor cursor(object);
  if (cursor.Peek() != '{') return {};
  do {
    cursor.SkipMark();  // the brace or a comma
    if (cursor.Peek() != '"') break;
    const std::string_view name = cursor.TakeValue();
    cursor.SkipMark();  // the colon
    const std::string_view value = cursor.TakeValue();
    if (IsKey(name, key)) return value;
  } while (cursor.Peek() == ',');
  return {};
}

std::vector<std::string_view> JsonTextsOfElements(std::string_view array) {
  std::vector<std::string_view> elements;
  JsonCursor cursor(array);
  if (cursor.Peek() != '[') return elements;
  do {
    cursor.SkipMark();  // the bracket or a comma
    if (cursor.Peek() == ']') break;
    elements.push_back(cursor.TakeValue());
  } while (cursor.Peek() == ',');
  return elements;
}

std::string CompactJson(std::string_view text) {
  if (text.starts_with(kMarkBeforeText)) text.remove_prefix(kMarkBeforeText.size());
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!in_string && IsJsonSpace(c)) continue;
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
