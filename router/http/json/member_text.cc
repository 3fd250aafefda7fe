#include "router/http/json/member_text.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::router {
namespace {

// Reads JSON that is known to be valid, from its beginning.
class ValidJson {
 public:
  explicit ValidJson(std::string_view text) : rest_(text) { SkipBlanks(); }

  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    SkipBlanks();
    return true;
  }
  // A whole value, with its brackets or quotes.
  std::string_view TakeValue() {
    const std::string_view begin = rest_;
    size_t depth = 0;
    size_t size = 0;
    do {
      const char c = rest_.empty() ? '\0' : rest_.front();
      const size_t length = c == '"' ? StringLength() : Opens(c) || Closes(c) ? 1 : PlainLength();
      if (length == 0) break;  // not valid
      depth += Opens(c) ? 1 : 0;
      depth -= Closes(c) && depth > 0 ? 1 : 0;
      rest_.remove_prefix(length);
      size = begin.size() - rest_.size();
      if (depth > 0) SkipSeparators();
    } while (depth > 0 && !rest_.empty());
    SkipBlanks();
    return begin.substr(0, size);
  }

 private:
  static bool Opens(char c) { return c == '{' || c == '['; }
  static bool Closes(char c) { return c == '}' || c == ']'; }

  void SkipBlanks() { Skip(" \t\r\n"); }
  void SkipSeparators() { Skip(" \t\r\n,:"); }
  void Skip(std::string_view any) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(any), rest_.size()));
  }
  size_t StringLength() const {
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == '"') {
        return i + 1;
      }
    }
    return rest_.size();
  }
  // A number, true, false or null.
  size_t PlainLength() const { return std::min(rest_.find_first_of(" \t\r\n,:]}"), rest_.size()); }

  std::string_view rest_;
};

bool Spells(std::string_view quoted, std::string_view key) {
  const std::string_view inside = quoted.substr(1, quoted.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return inside == key;
  const nlohmann::json text = nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false);
  return text.is_string() && text.get_ref<const std::string&>() == key;
}

}  // namespace

std::string_view MemberText(std::string_view object, std::string_view key) {
  ValidJson json(object);
  if (!json.Take('{')) return {};
  do {
    const std::string_view name = json.TakeValue();
    if (name.size() < 2 || name.front() != '"' || !json.Take(':')) return {};
    const std::string_view value = json.TakeValue();
    if (Spells(name, key)) return value;
  } while (json.Take(','));
  return {};
}

}  // namespace lockstep::router
