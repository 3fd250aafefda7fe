#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// The JSON schema of a tool's arguments, taken apart for grammars. Pure. Members keep their order,
// because properties come in the order of the schema. Errors are UNIMPLEMENTED or INVALID_ARGUMENT
// and say what is wrong, without a path. Include this in few .cc files only.
namespace lockstep::router {

using OrderedJson = nlohmann::ordered_json;

// Of an object in a schema. Ordered objects are slow if they are large.
inline constexpr size_t kMaxSchemaMembers = 1000;

// `text`: a JSON object, or empty: the tool has no arguments. Prose (titles, descriptions, examples
// and defaults) is left out.
absl::StatusOr<OrderedJson> ParseArgumentSchema(std::string_view text);

// The schema of one JSON object, for %json. The engine's options are ours.
absl::StatusOr<std::string> ObjectSchema(OrderedJson root);

// How JSON is written: the value of the member "x-guidance".
OrderedJson EngineOptions();
// Null: there is no such member, or `object` is none.
const OrderedJson* Member(const OrderedJson& object, std::string_view key);
// Whether a "$ref" means something in "$defs" or "definitions".
bool RefersToDefinitions(const std::string& reference);

struct ToolProperty {
  std::string name;
  bool required = false;
  OrderedJson schema;
};
// For formats that write each property by itself. UNIMPLEMENTED for keywords that say more about
// the object than its properties, and which of them are required.
absl::StatusOr<std::vector<ToolProperty>> PropertiesOf(const OrderedJson& root);

// The keywords of a schema that values can violate.
std::set<std::string> KeywordsOf(const OrderedJson& schema);
// Whether a value is a whole number: 1.0 is one (JSON Schema 2020-12, Core, section 4.2.3).
bool IsWhole(const OrderedJson& value);
// Whether `type`, a member of a schema, allows a value. Null: it allows all.
bool FitsType(const OrderedJson& value, const OrderedJson* type);

// The schema says nothing that values can violate. `format` says nothing: by default it is an
// annotation (JSON Schema 2020-12, Validation, section 7.2.1).
bool IsFree(const OrderedJson& value);

}  // namespace lockstep::router
