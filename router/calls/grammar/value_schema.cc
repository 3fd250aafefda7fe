#include "router/calls/grammar/value_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/shown_text.h"
#include "common/status.h"
#include "router/calls/grammar/inner_schemas.h"

namespace lockstep::router {
namespace {

constexpr std::array<std::string_view, 2> kDefinitions = {"$defs", "definitions"};

// Notes in `has` whether `schema`, or a schema inside of it, has a "$ref". UNIMPLEMENTED if it
// leads out of the definitions: it would have another meaning in a schema of its own.
absl::Status FindReferences(const OrderedJson& schema, bool& has) {
  const OrderedJson* const own = schema.is_object() ? Member(schema, "$ref") : nullptr;
  if (own != nullptr && own->is_string()) {
    const std::string& reference = own->get_ref<const std::string&>();
    if (!RefersToDefinitions(reference)) {
      return Unimplemented("expected a $ref of #/$defs/ or #/definitions/, got {}",
                           Quote(reference));
    }
    has = true;
  }
  absl::Status status;
  ForEachInnerSchema(schema, [&](const OrderedJson& inner) {
    if (status.ok()) status = FindReferences(inner, has);
  });
  return status;
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
  bool has_references = false;
  LOCKSTEP_RETURN_IF_ERROR(FindReferences(schema, has_references));
  if (has_references) {
    for (const std::string_view name : kDefinitions) {
      if (const OrderedJson* const found = Member(root, name)) schema[std::string(name)] = *found;
    }
    LOCKSTEP_RETURN_IF_ERROR(FindReferences(schema, has_references));
  }
  if (!tag.empty() && MayHaveStrings(schema)) schema = WithoutTag(std::move(schema), tag);
  schema["x-guidance"] = EngineOptions();
  return schema.dump();
}

}  // namespace lockstep::router
