#include "router/templates/template_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::router {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Shortest(double value, std::chars_format format, std::array<char, 32>& buffer) {
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  return {buffer.data(), end};
}

// As Python's repr: the shortest digits that give the same number, with an exponent only below 1e-4
// and from 1e16 on.
std::string FloatText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const double magnitude = std::abs(value);
  std::array<char, 32> buffer = {};
  if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    return std::string(Shortest(value, std::chars_format::scientific, buffer));
  }
  std::string text(Shortest(value, std::chars_format::fixed, buffer));
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

class Dumper {
 public:
  explicit Dumper(const JsonStyle& style) : style_(style) {}

  std::string Run(const Json& value) && {
    Dump(value, 0);
    return std::move(out_);
  }

 private:
  void Dump(const Json& value, size_t depth) {
    if (value.is_object()) {
      DumpObject(value, depth);
    } else if (value.is_array()) {
      DumpArray(value, depth);
    } else if (value.is_number_float()) {
      out_ += FloatText(value.get<double>());
    } else {
      out_ += value.dump(-1, ' ', style_.ensure_ascii);
    }
  }

  void DumpArray(const Json& array, size_t depth) {
    out_ += '[';
    for (size_t i = 0; i < array.size(); ++i) {
      BeginItem(i, depth);
      Dump(array[i], depth + 1);
    }
    End(']', array.size(), depth);
  }

  void DumpObject(const Json& object, size_t depth) {
    std::vector<std::pair<std::string_view, const Json*>> members;
    for (const auto& [key, value] : object.items()) members.emplace_back(key, &value);
    if (style_.sort_keys) std::sort(members.begin(), members.end());
    out_ += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      BeginItem(i, depth);
      out_ += Json(members[i].first).dump(-1, ' ', style_.ensure_ascii);
      out_ += style_.key_separator;
      Dump(*members[i].second, depth + 1);
    }
    End('}', members.size(), depth);
  }

  void BeginItem(size_t index, size_t depth) {
    if (index > 0) out_ += style_.item_separator;
    BreakLine(depth + 1);
  }
  void End(char bracket, size_t num_items, size_t depth) {
    if (num_items > 0) BreakLine(depth);
    out_ += bracket;
  }
  void BreakLine(size_t depth) {
    if (!style_.indent.has_value()) return;
    out_ += '\n';
    for (size_t i = 0; i < depth; ++i) out_ += *style_.indent;
  }

  const JsonStyle& style_;
  std::string out_;
};

}  // namespace

std::string DumpJson(const Json& value, const JsonStyle& style) { return Dumper(style).Run(value); }

}  // namespace lockstep::router
