#include "router/calls/grammar/argument_schema.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "common/json/json.h"
#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr JsonLimits kSchemaLimits = {.max_depth = 64, .max_values = 200'000};
constexpr size_t kMaxSteps = 1000;  // of one value: schemas may refer to each other
constexpr size_t kMaxChoicesOfValue = 10'000;

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

// The keywords of a schema that values can violate.
std::set<std::string> KeywordsOf(const OrderedJson& schema) {
  std::set<std::string> keywords;
  for (const auto& [key, value] : schema.items()) {
    if (!IsAnnotation(key)) keywords.insert(key);
  }
  return keywords;
}

std::string TypeNameOf(const OrderedJson& value) {
  if (value.is_number_integer()) return "integer";
  return value.is_number() ? "number" : value.type_name();
}

// Whether `type`, a member of a schema, allows a value. Null: it allows all.
bool FitsType(const OrderedJson& value, const OrderedJson* type) {
  if (type == nullptr) return true;
  const auto fits = [&](const OrderedJson& name) {
    const std::string own = TypeNameOf(value);
    return name == own || (name == "number" && own == "integer");
  };
  return type->is_array() ? std::any_of(type->begin(), type->end(), fits) : fits(*type);
}

// What a "$ref" of definitions means. Null: there is no such thing.
const OrderedJson* Resolve(const std::string& reference, const OrderedJson& root) {
  if (!RefersToDefinitions(reference)) return nullptr;
  const size_t slash = reference.find('/', 2);
  const OrderedJson* const definitions = Member(root, reference.substr(2, slash - 2));
  if (definitions == nullptr || !definitions->is_object()) return nullptr;
  // Names with escapes, and places inside of a definition, are left to the engine.
  return Member(*definitions, reference.substr(slash + 1));
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

template <size_t kSize>
bool IsOneOf(std::string_view keyword, const std::array<std::string_view, kSize>& keywords) {
  return std::find(keywords.begin(), keywords.end(), keyword) != keywords.end();
}

bool AllowsEveryName(const OrderedJson& schema) {
  if (IsFree(schema)) return true;
  return schema.is_object() && KeywordsOf(schema) == std::set<std::string>{"type"} &&
         FitsType("", &schema["type"]);
}

// Removes each "propertyNames" that says nothing. The engine does not know the keyword, and
// generators of schemas write it for every map.
void DropIdlePropertyNames(OrderedJson& schema) {
  constexpr auto kValues =
      std::to_array<std::string_view>({"const", "default", "enum", "example", "examples"});
  constexpr auto kNamedSchemas = std::to_array<std::string_view>(
      {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"});
  if (schema.is_array()) {
    for (OrderedJson& element : schema) DropIdlePropertyNames(element);
  }
  if (!schema.is_object()) return;
  const auto names = schema.find("propertyNames");
  if (names != schema.end() && AllowsEveryName(*names)) schema.erase(names);
  for (auto& [key, member] : schema.items()) {
    if (IsOneOf(key, kValues)) continue;
    if (member.is_object() && IsOneOf(key, kNamedSchemas)) {
      for (OrderedJson& named : member) DropIdlePropertyNames(named);
    } else {
      DropIdlePropertyNames(member);
    }
  }
}

// Sorts what a schema allows into strings and other values.
class ChoiceCollector {
 public:
  explicit ChoiceCollector(const OrderedJson& root) : root_(root) {}

  absl::StatusOr<ValueChoices> Collect(const OrderedJson& schema) {
    ValueChoices choices;
    LOCKSTEP_RETURN_IF_ERROR(Add(schema, choices));
    return choices;
  }

 private:
  absl::Status Add(const OrderedJson& schema, ValueChoices& choices) {
    if (++num_steps_ > kMaxSteps) return Unimplemented("its alternatives are too many");
    if (IsFree(schema)) {
      choices.anything = true;
      return absl::OkStatus();
    }
    if (!schema.is_object()) return absl::OkStatus();  // false: nothing
    const std::set<std::string> keywords = KeywordsOf(schema);
    if (keywords.contains("enum") || keywords.contains("const")) {
      return AddValues(schema, keywords, choices);
    }
    if (keywords.contains("type")) return AddTypes(schema, keywords, choices);
    if (keywords.size() == 1) {
      const std::string& keyword = *keywords.begin();
      const OrderedJson& operand = schema[keyword];
      if (keyword == "$ref" && operand.is_string()) {
        const OrderedJson* const target = Resolve(operand.get<std::string>(), root_);
        if (target != nullptr) return Add(*target, choices);
      }
      if (keyword == "allOf" && operand.is_array() && operand.size() == 1) {
        return Add(operand[0], choices);
      }
      if (keyword == "anyOf" && operand.is_array()) return AddAll(operand, choices);
      if (keyword == "oneOf" && operand.is_array()) return AddOneOf(operand, choices);
    }
    return Unimplemented("strings of a schema with {} and no type are not implemented",
                         *keywords.begin());
  }

  absl::Status AddAll(const OrderedJson& schemas, ValueChoices& choices) {
    for (const OrderedJson& schema : schemas) LOCKSTEP_RETURN_IF_ERROR(Add(schema, choices));
    return absl::OkStatus();
  }

  // Exactly one schema must fit, so their strings must differ.
  absl::Status AddOneOf(const OrderedJson& schemas, ValueChoices& choices) {
    ValueChoices own;
    LOCKSTEP_RETURN_IF_ERROR(AddAll(schemas, own));
    std::set<std::string> literals;
    size_t num_free = own.anything ? 2 : 0;
    for (const StringChoice& choice : own.strings) {
      const bool is_new = choice.literal && literals.insert(*choice.literal).second;
      num_free += is_new ? 0 : 1;
    }
    if (num_free > 1 || (num_free == 1 && !literals.empty())) {
      return Unimplemented("oneOf with schemas that may allow the same string is not implemented");
    }
    choices.strings.insert(choices.strings.end(), own.strings.begin(), own.strings.end());
    if (own.others.size() == 1) choices.others.push_back(own.others[0]);
    if (own.others.size() > 1) choices.others.push_back(Schema("oneOf", own.others));
    return absl::OkStatus();
  }

  static OrderedJson Schema(const char* keyword, const OrderedJson& operand) {
    OrderedJson schema = OrderedJson::object();
    schema[keyword] = operand;
    return schema;
  }

  static absl::Status AddValues(const OrderedJson& schema, const std::set<std::string>& keywords,
                                ValueChoices& choices) {
    const bool is_enum = keywords.contains("enum");
    for (const std::string& keyword : keywords) {
      if (keyword == "type" || keyword == (is_enum ? "enum" : "const")) continue;
      return Unimplemented("{} beside enum or const is not implemented", keyword);
    }
    const OrderedJson values =
        is_enum ? schema["enum"] : OrderedJson(OrderedJson::array_t{schema["const"]});
    if (!values.is_array() || values.size() > kMaxChoicesOfValue) {
      return InvalidArgument("enum: expected an array of at most {} values", kMaxChoicesOfValue);
    }
    OrderedJson others = OrderedJson::array();
    for (const OrderedJson& value : values) {
      if (!FitsType(value, Member(schema, "type"))) continue;
      if (value.is_string()) {
        choices.strings.push_back({.literal = value.get<std::string>()});
      } else {
        others.push_back(value);
      }
    }
    if (!others.empty()) choices.others.push_back(Schema("enum", others));
    return absl::OkStatus();
  }

  static absl::Status AddTypes(const OrderedJson& schema, const std::set<std::string>& keywords,
                               ValueChoices& choices) {
    const OrderedJson& type = schema["type"];
    const OrderedJson names =
        type.is_array() ? type : OrderedJson(OrderedJson::array_t{OrderedJson(type)});
    for (const OrderedJson& name : names) {
      if (!name.is_string()) return InvalidArgument("type: expected the name of a type");
      if (name == "string") {
        LOCKSTEP_RETURN_IF_ERROR(AddString(schema, keywords, choices));
      } else {
        OrderedJson other = schema;
        other["type"] = name;
        choices.others.push_back(std::move(other));
      }
    }
    return absl::OkStatus();
  }

  static absl::Status AddString(const OrderedJson& schema, const std::set<std::string>& keywords,
                                ValueChoices& choices) {
    constexpr auto kOfAllTypes = std::to_array<std::string_view>(
        {"pattern", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"});
    for (const std::string_view keyword : kOfAllTypes) {
      if (keywords.contains(std::string(keyword))) {
        return Unimplemented("{} of a string is not implemented", keyword);
      }
    }
    StringChoice choice;
    for (const char* const keyword : {"minLength", "maxLength"}) {
      const OrderedJson* const length = Member(schema, keyword);
      if (length == nullptr) continue;
      if (!length->is_number_unsigned()) return InvalidArgument("{}: expected a count", keyword);
      if (std::string_view(keyword) == "minLength") {
        choice.min_length = length->get<size_t>();
      } else {
        choice.max_length = length->get<size_t>();
      }
    }
    choices.strings.push_back(choice);
    return absl::OkStatus();
  }

  const OrderedJson& root_;
  size_t num_steps_ = 0;
};

}  // namespace

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

absl::StatusOr<ValueChoices> ChoicesOf(const OrderedJson& value, const OrderedJson& root) {
  return ChoiceCollector(root).Collect(value);
}

bool IsFree(const OrderedJson& value) {
  return value == true || (value.is_object() && KeywordsOf(value).empty());
}

}  // namespace lockstep::router
