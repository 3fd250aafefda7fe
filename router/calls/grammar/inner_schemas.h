#pragma once

#include <algorithm>
#include <array>
#include <string_view>

// The schemas inside of a JSON schema. Pure.
namespace lockstep::router {

// Calls `visit` with each schema that stands directly in `schema`: in the operands of keywords that
// have schemas. Other operands (enum, const, ...) are values, even if they look like schemas.
// `Json`: a type of nlohmann's, which may be const.
template <typename Json, typename Visit>
void ForEachInnerSchema(Json& schema, const Visit& visit) {
  // The operand is a schema, or a list of schemas.
  constexpr auto kOfSchemas = std::to_array<std::string_view>(
      {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
       "additionalProperties", "unevaluatedProperties", "propertyNames", "anyOf", "oneOf", "allOf",
       "not", "if", "then", "else"});
  // The operand has a schema for each name.
  constexpr auto kOfNamed =
      std::to_array<std::string_view>({"properties", "patternProperties", "$defs", "definitions",
                                       "dependentSchemas", "dependencies"});
  const auto is_in = [](const auto& keywords, std::string_view keyword) {
    return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
  };
  if (!schema.is_object()) return;
  for (auto member = schema.begin(); member != schema.end(); ++member) {
    const bool is_schema = is_in(kOfSchemas, member.key());
    if (is_schema && member->is_object()) {
      visit(*member);
    } else if ((is_schema && member->is_array()) ||
               (is_in(kOfNamed, member.key()) && member->is_object())) {
      for (auto& inner : *member) visit(inner);
    }
  }
}

}  // namespace lockstep::router
