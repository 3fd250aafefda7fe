#include "router/calls/grammar/value_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr std::array<std::string_view, 2> kDefinitions = {"$defs", "definitions"};

// Whether any schema in `value` has a "$ref". UNIMPLEMENTED for one that reaches out of the
// definitions: it would have another meaning in a schema of its own.
absl::StatusOr<bool> HasReferences(const OrderedJson& value) {
  bool has = false;
  if (!value.is_structured()) return has;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object() && key == "$ref" && member.is_string()) {
      const std::string& reference = member.get_ref<const std::string&>();
      if (!RefersToDefinitions(reference)) {
        return Unimplemented("expected a $ref of #/$defs/ or #/definitions/, got {}",
                             Quote(reference));
      }
      has = true;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const bool inside, HasReferences(member));
    has = has || inside;
  }
  return has;
}

// Whether its values may have strings or keys in them. In doubt, yes.
bool MayHaveStrings(const OrderedJson& schema) {
  const OrderedJson* const type = Member(schema, "type");
  if (type == nullptr) return true;
  const auto may = [](const OrderedJson& name) {
    return name != "null" && name != "boolean" && name != "number" && name != "integer";
  };
  return type->is_array() ? std::any_of(type->begin(), type->end(), may) : may(*type);
}

// A regular expression for each character of a text, also inside of a class.
std::vector<std::string> PatternCharacters(std::string_view text) {
  constexpr std::string_view kWithMeaning = "\\^$.|?*+()[]{}-";
  std::vector<std::string> characters;
  for (const char c : text) {
    const bool goes_on = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (!goes_on) characters.emplace_back();
    if (kWithMeaning.find(c) != std::string_view::npos) characters.back() += '\\';
    characters.back() += c;
  }
  return characters;
}

// The same values, except those with the tag in a string or a key.
OrderedJson WithoutTag(OrderedJson schema, std::string_view tag) {
  OrderedJson definitions = OrderedJson::object();
  if (const OrderedJson* const own = Member(schema, "$defs")) definitions = *own;
  std::string name = "any";
  while (definitions.contains(name)) name += '_';
  const std::string pattern = PatternWithout(tag);
  const OrderedJson any = {{"$ref", "#/$defs/" + name}};
  definitions[name] = {{"anyOf",
                        {{{"type", {"null", "boolean", "number"}}},
                         {{"type", "string"}, {"pattern", pattern}},
                         {{"type", "array"}, {"items", any}},
                         {{"type", "object"},
                          {"patternProperties", {{pattern, any}}},
                          {"additionalProperties", false}}}}};
  OrderedJson both = OrderedJson::object();
  if (const OrderedJson* const older = Member(schema, "definitions")) both["definitions"] = *older;
  for (const std::string_view keyword : kDefinitions) schema.erase(std::string(keyword));
  both["$defs"] = std::move(definitions);
  both["allOf"] = OrderedJson(OrderedJson::array_t{std::move(schema), any});
  return both;
}

}  // namespace

std::string PatternWithout(std::string_view tag) {
  const std::vector<std::string> characters = PatternCharacters(tag);
  const std::string& first = characters[0];
  // Behind the first character: each beginning of the rest, and how it goes on otherwise.
  std::string begun;
  std::string again;
  std::string otherwise;
  std::string at_end;
  for (size_t i = 1; i < characters.size(); ++i) {
    const std::string_view bar = i == 1 ? "" : "|";
    again += fmt::format("{}{}{}", bar, begun, first);
    otherwise += fmt::format("{}{}[^{}{}]", bar, begun, first, characters[i]);
    at_end += fmt::format("{}{}", bar, begun);
    begun += characters[i];
  }
  return fmt::format("^(?:[^{0}]|{0}(?:{1})*(?:{2}))*(?:{0}(?:{1})*(?:{3}))?$", first, again,
                     otherwise, at_end);
}

absl::StatusOr<std::string> ValueSchema(const OrderedJson& value, const OrderedJson& root,
                                        std::string_view tag) {
  OrderedJson schema = value.is_object() ? value : OrderedJson::object();
  // References mean the definitions of the root.
  for (const std::string_view name : kDefinitions) schema.erase(std::string(name));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool has_references, HasReferences(schema));
  for (const std::string_view name : kDefinitions) {
    const OrderedJson* const definitions = has_references ? Member(root, name) : nullptr;
    if (definitions == nullptr) continue;
    LOCKSTEP_RETURN_IF_ERROR(HasReferences(*definitions).status());
    schema[std::string(name)] = *definitions;
  }
  if (!tag.empty() && MayHaveStrings(schema)) schema = WithoutTag(std::move(schema), tag);
  schema["x-guidance"] = EngineOptions();
  return schema.dump();
}

}  // namespace lockstep::router
