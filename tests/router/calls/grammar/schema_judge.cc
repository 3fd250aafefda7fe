#include "tests/router/calls/grammar/schema_judge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/check.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

bool IsOfType(const json& value, const std::string& type) {
  // Large integers have no other type in this library.
  if (type == "integer") {
    return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
  }
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

size_t NumCodePoints(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string CheckObject(const json& value, const json& schema, const json& root) {
  const json properties = schema.value("properties", json::object());
  for (const auto& [key, member] : value.items()) {
    if (!properties.contains(key)) {
      if (schema.value("additionalProperties", true)) continue;
      return "it has the member " + key;
    }
    const std::string why = WhyUnfit(member, properties[key], root);
    if (!why.empty()) return key + ": " + why;
  }
  for (const json& key : schema.value("required", json::array())) {
    if (!value.contains(key.get<std::string>())) return "it lacks " + key.get<std::string>();
  }
  return "";
}

std::string CheckKeyword(const json& value, const std::string& keyword, const json& operand,
                         const json& schema, const json& root) {
  const std::string wrong = value.dump() + " does not fit " + keyword + " " + operand.dump();
  const auto judge = [&](bool fits) { return fits ? "" : wrong; };
  if (keyword == "$ref") {
    return WhyUnfit(value, root.at(json::json_pointer(operand.get<std::string>().substr(1))), root);
  }
  if (keyword == "type") {
    const json names = operand.is_array() ? operand : json::array({operand});
    return judge(
        std::ranges::any_of(names, [&](const json& type) { return IsOfType(value, type); }));
  }
  if (keyword == "enum") return judge(std::ranges::find(operand, value) != operand.end());
  if (keyword == "const") return judge(value == operand);
  if (keyword == "anyOf") {
    return judge(std::ranges::any_of(
        operand, [&](const json& choice) { return WhyUnfit(value, choice, root).empty(); }));
  }
  if (keyword == "oneOf") {
    return judge(std::ranges::count_if(operand, [&](const json& choice) {
                   return WhyUnfit(value, choice, root).empty();
                 }) == 1);
  }
  if (keyword == "minLength") {
    return judge(!value.is_string() || NumCodePoints(value.get<std::string>()) >= operand);
  }
  if (keyword == "maxLength") {
    return judge(!value.is_string() || NumCodePoints(value.get<std::string>()) <= operand);
  }
  if (keyword == "minimum") return judge(!value.is_number() || value >= operand);
  if (keyword == "maximum") return judge(!value.is_number() || value <= operand);
  if (keyword == "maxItems") return judge(!value.is_array() || value.size() <= operand);
  if (keyword == "items") {
    for (const json& item : value.is_array() ? value : json::array()) {
      const std::string why = WhyUnfit(item, operand, root);
      if (!why.empty()) return why;
    }
    return "";
  }
  if (keyword == "properties") return value.is_object() ? CheckObject(value, schema, root) : "";
  static const std::set<std::string> kSaysNothing = {"required", "additionalProperties", "$defs",
                                                     "description"};
  LOCKSTEP_CHECK(kSaysNothing.contains(keyword), "the judge knows no {}", keyword);
  return "";
}

}  // namespace

std::string WhyUnfit(const json& value, const json& schema, const json& root) {
  for (const auto& [keyword, operand] : schema.items()) {
    const std::string why = CheckKeyword(value, keyword, operand, schema, root);
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace lockstep::router
