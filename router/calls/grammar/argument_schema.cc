#include "router/calls/grammar/argument_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "common/json/json.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "router/calls/grammar/inner_schemas.h"

namespace lockstep::router {
namespace {

constexpr JsonLimits kSchemaLimits = {.max_depth = 64, .max_values = 200'000};

// Between the parts of JSON: as in common/constraints/engine/grammars.py.
constexpr std::string_view kJsonOptions =
    R"({"whitespace_flexible":true,"whitespace_pattern":"[ \\t]{1,2}|\\r?\\n[ \\t]{0,64}",)"
    R"("coerce_one_of":false,"lenient":false})";

bool IsAnnotation(std::string_view keyword) {
  constexpr auto kAnnotations = std::to_array<std::string_view>(
      {"title", "description", "default", "examples", "example", "$comment", "$schema", "$id",
       "deprecated", "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType",
       "nullable"});
  return keyword.starts_with("x-") ||
         std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end();
}

std::string TypeNameOf(const OrderedJson& value) {
  if (IsWhole(value)) return "integer";
  return value.is_number() ? "number" : value.type_name();
}

// Texts for people and models, which no value can violate.
void EraseProse(OrderedJson& schema) {
  for (const char* const keyword : {"title", "description", "default", "examples", "example"}) {
    if (schema.is_object()) schema.erase(keyword);
  }
  ForEachInnerSchema(schema, EraseProse);
}

absl::Status CheckMembers(const nlohmann::json& value) {
  if (value.is_object() && value.size() > kMaxSchemaMembers) {
    return InvalidArgument("expected objects of at most {} members, got {}", kMaxSchemaMembers,
                           value.size());
  }
  if (!value.is_structured()) return absl::OkStatus();
  for (const nlohmann::json& member : value) LOCKSTEP_RETURN_IF_ERROR(CheckMembers(member));
  return absl::OkStatus();
}

// A format is no annotation here: names that it forbids would pass.
bool AllowsEveryName(const OrderedJson& schema) {
  if (!schema.is_object()) return schema == true;
  for (const auto& [keyword, operand] : schema.items()) {
    if (keyword != "type" && keyword != "$comment") return false;
  }
  return FitsType("", Member(schema, "type"));
}

// Removes each "propertyNames" that says nothing. The engine does not know the keyword, and
// generators of schemas write it for every map.
void DropIdlePropertyNames(OrderedJson& schema) {
  const auto names = schema.find("propertyNames");
  if (names != schema.end() && AllowsEveryName(*names)) schema.erase(names);
  ForEachInnerSchema(schema, DropIdlePropertyNames);
}

}  // namespace

std::set<std::string> KeywordsOf(const OrderedJson& schema) {
  std::set<std::string> keywords;
  for (const auto& [key, value] : schema.items()) {
    if (!IsAnnotation(key)) keywords.insert(key);
  }
  return keywords;
}

bool IsWhole(const OrderedJson& value) {
  if (!value.is_number_float()) return value.is_number();
  const double number = value.get<double>();
  return std::trunc(number) == number;
}

bool FitsType(const OrderedJson& value, const OrderedJson* type) {
  if (type == nullptr) return true;
  const auto fits = [&](const OrderedJson& name) {
    const std::string own = TypeNameOf(value);
    return name == own || (name == "number" && own == "integer");
  };
  return type->is_array() ? std::any_of(type->begin(), type->end(), fits) : fits(*type);
}

const OrderedJson* Member(const OrderedJson& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

bool RefersToDefinitions(const std::string& reference) {
  return reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/");
}

OrderedJson EngineOptions() { return OrderedJson::parse(kJsonOptions); }

absl::StatusOr<OrderedJson> ParseArgumentSchema(std::string_view text) {
  if (text.empty()) text = R"({"additionalProperties":false})";
  const absl::StatusOr<nlohmann::json> sorted = ParseJson(text, "schema", kSchemaLimits);
  if (!sorted.ok()) return InvalidArgument("{}", Message(sorted.status()));
  if (!sorted->is_object()) return InvalidArgument("expected a JSON schema of an object");
  LOCKSTEP_RETURN_IF_ERROR(CheckMembers(*sorted));
  OrderedJson schema = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (const OrderedJson* const type = Member(schema, "type");
      type != nullptr && !FitsType(OrderedJson::object(), type)) {
    return InvalidArgument("type: expected \"object\", got {}", type->dump());
  }
  EraseProse(schema);
  DropIdlePropertyNames(schema);
  return schema;
}

absl::StatusOr<std::string> ObjectSchema(OrderedJson root) {
  root["type"] = "object";
  root["x-guidance"] = EngineOptions();
  return root.dump();
}

absl::StatusOr<std::vector<ToolProperty>> PropertiesOf(const OrderedJson& root) {
  constexpr auto kKnown = std::to_array<std::string_view>(
      {"type", "properties", "required", "additionalProperties", "$defs", "definitions", "strict"});
  for (const std::string& keyword : KeywordsOf(root)) {
    if (std::find(kKnown.begin(), kKnown.end(), keyword) == kKnown.end()) {
      return Unimplemented("{} beside the properties is not implemented", keyword);
    }
  }
  std::set<std::string> required;
  if (const OrderedJson* const names = Member(root, "required")) {
    if (!names->is_array()) return InvalidArgument("required: expected an array of names");
    for (const OrderedJson& name : *names) {
      if (!name.is_string()) return InvalidArgument("required: expected an array of names");
      required.insert(name.get<std::string>());
    }
  }
  std::vector<ToolProperty> properties;
  const OrderedJson* const found = Member(root, "properties");
  const OrderedJson object = found == nullptr ? OrderedJson::object() : *found;
  if (!object.is_object()) return InvalidArgument("properties: expected an object");
  for (const auto& [name, schema] : object.items()) {
    if (!schema.is_object() && !schema.is_boolean()) {
      return InvalidArgument("properties: expected schemas, got {} for {}", schema.type_name(),
                             Quote(name));
    }
    const bool is_required = required.erase(name) > 0;
    if (schema == false) {
      if (is_required) return InvalidArgument("no value fits the property {}", Quote(name));
      continue;
    }
    properties.push_back({.name = name, .required = is_required, .schema = schema});
  }
  if (required.empty()) return properties;
  return Unimplemented("required: {} is not among the properties, which is not implemented",
                       Quote(*required.begin()));
}

bool IsFree(const OrderedJson& value) {
  return value == true || (value.is_object() && KeywordsOf(value).empty());
}

}  // namespace lockstep::router
