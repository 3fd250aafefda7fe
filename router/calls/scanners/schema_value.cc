#include "router/calls/scanners/schema_value.h"

#include <algorithm>

#include "router/calls/scanners/json_text_scanner.h"
#include "router/calls/scanners/marker_scanner.h"

namespace lockstep::router {
namespace {

bool Allows(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// Whether the schema allows a JSON text that begins with this character.
bool AllowsKind(const std::vector<std::string>& types, char first) {
  switch (first) {
    case '{':
      return Allows(types, "object");
    case '[':
      return Allows(types, "array");
    case '"':
      return Allows(types, "string");
    case 't':
    case 'f':
      return Allows(types, "boolean");
    case 'n':
      return Allows(types, "null");
    default:
      return Allows(types, "number") || Allows(types, "integer");
  }
}

std::string Quoted(std::string_view text) {
  std::string json;
  AppendJsonQuoted(text, json);
  return json;
}

}  // namespace

bool IsOnlyString(const std::vector<std::string>& types) {
  return types.size() == 1 && types[0] == "string";
}

std::string ValueToJson(std::string_view text, const std::vector<std::string>& types) {
  if (IsOnlyString(types)) return Quoted(text);
  std::string json;
  if (!AppendScalar(TrimJsonSpace(text), json)) return Quoted(text);
  // A string in quotes among types that include strings: the quotes may belong to it.
  if (json[0] == '"' && Allows(types, "string")) return Quoted(text);
  // A wrong type stays as it is, except where a string is allowed instead.
  if (!types.empty() && !AllowsKind(types, json[0]) && Allows(types, "string")) return Quoted(text);
  return json;
}

}  // namespace lockstep::router
