#include "router/calls/tool_list.h"

#include <absl/status/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

// JSON Schema's names of types. A set of types has a bit for each.
constexpr std::array<std::string_view, 7> kTypeNames = {"string",  "integer", "number", "null",
                                                        "boolean", "object",  "array"};
using TypeSet = uint8_t;

absl::Status ToolError(size_t index, std::string_view path, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("[{}]{}: expected {}", index, path, expected));
}

// Empty for a name that is none of JSON Schema's.
TypeSet TypeNamed(std::string_view name) {
  const auto found = std::ranges::find(kTypeNames, name);
  if (found == kTypeNames.end()) return 0;
  return static_cast<TypeSet>(1U << static_cast<unsigned>(found - kTypeNames.begin()));
}

TypeSet TypeOfValue(const json& value) {
  if (value.is_number_float()) return TypeNamed("number");
  return TypeNamed(value.is_number() ? "integer" : value.type_name());
}

std::vector<std::string> NamesOf(TypeSet types) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kTypeNames.size(); ++i) {
    if ((types >> i & 1) != 0) names.emplace_back(kTypeNames[i]);
  }
  return names;
}

// The types that schemas allow, without judging the schemas. A keyword that says nothing about
// types, or that is wrong, is passed over.
//
// A schema also allows what the schemas allow that it names, and these may name it in turn. Each
// schema is read once, however many name it, so the work is linear in the size of the text.
class SchemaTypes {
 public:
  // `root`: where references of the form "#/..." begin. It must outlive the object.
  explicit SchemaTypes(const json& root) : root_(root) {}

  // Returns the schema's number. It must be in the root.
  size_t Add(const json& schema) {
    const size_t number = NumberOf(schema);
    for (; num_read_ < schemas_.size(); ++num_read_) Read(num_read_);
    return number;
  }
  // Gives the types of each schema to the schemas that refer to it. Call it after the last Add.
  void Settle() {
    std::vector<size_t> changed(schemas_.size());
    std::iota(changed.begin(), changed.end(), size_t{0});
    while (!changed.empty()) {
      const Schema& schema = schemas_[changed.back()];
      changed.pop_back();
      for (const size_t user : schema.users) {
        const TypeSet before = std::exchange(
            schemas_[user].types, static_cast<TypeSet>(schemas_[user].types | schema.types));
        if (schemas_[user].types != before) changed.push_back(user);
      }
    }
  }
  TypeSet TypesOf(size_t number) const { return schemas_[number].types; }

 private:
  struct Schema {
    const json* text;
    TypeSet types = 0;
    std::vector<size_t> users;  // the schemas that name this one
  };

  size_t NumberOf(const json& schema) {
    const auto [place, is_new] = numbers_.try_emplace(&schema, schemas_.size());
    if (is_new) schemas_.push_back({.text = &schema, .users = {}});
    return place->second;
  }

  void Read(size_t number) {
    const json& schema = *schemas_[number].text;
    if (!schema.is_object()) return;
    TypeSet types = 0;
    if (const auto type = schema.find("type"); type != schema.end()) {
      types = OfNames(*type);
    } else {
      types = OfValues(schema);
    }
    const auto nullable = schema.find("nullable");
    if (nullable != schema.end() && *nullable == true) types |= TypeNamed("null");
    schemas_[number].types = types;
    for (const char* const keyword : {"anyOf", "oneOf", "allOf"}) {
      const auto choices = schema.find(keyword);
      if (choices == schema.end() || !choices->is_array()) continue;
      for (const json& choice : *choices) schemas_[NumberOf(choice)].users.push_back(number);
    }
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      const json* const target = Resolve(*reference);
      if (target != nullptr) schemas_[NumberOf(*target)].users.push_back(number);
    }
  }

  static TypeSet OfNames(const json& type) {
    if (type.is_string()) return TypeNamed(type.get_ref<const std::string&>());
    TypeSet types = 0;
    if (!type.is_array()) return types;
    for (const json& name : type) {
      if (name.is_string()) types |= TypeNamed(name.get_ref<const std::string&>());
    }
    return types;
  }

  static TypeSet OfValues(const json& schema) {
    TypeSet types = 0;
    if (const auto value = schema.find("const"); value != schema.end()) {
      types |= TypeOfValue(*value);
    }
    const auto values = schema.find("enum");
    if (values == schema.end() || !values->is_array()) return types;
    for (const json& value : *values) types |= TypeOfValue(value);
    return types;
  }

  const json* Resolve(const json& reference) const {
    if (!reference.is_string()) return nullptr;
    const std::string& text = reference.get_ref<const std::string&>();
    if (!text.starts_with("#/")) return nullptr;
    const json* node = &root_;
    for (size_t begin = 2; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      if (!node->is_object()) return nullptr;
      const auto member = node->find(text.substr(begin, end - begin));
      if (member == node->end()) return nullptr;
      node = &*member;
      begin = end + 1;
    }
    return node;
  }

  const json& root_;
  std::vector<Schema> schemas_;  // by number
  absl::flat_hash_map<const json*, size_t> numbers_;
  size_t num_read_ = 0;
};

}  // namespace

absl::StatusOr<ToolList> ToolList::Parse(std::string_view json) {
  ToolList list;
  if (json.empty()) return list;
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json tools,
                            ParseJson(json, "tools", {.max_depth = kMaxToolsDepth}));
  if (!tools.is_array()) {
    return absl::InvalidArgumentError("expected an array of tools, not " + DescribeJson(tools));
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(list.Add(tools[i], i));
  }
  return list;
}

absl::Status ToolList::Add(const nlohmann::json& entry, size_t index) {
  if (!entry.is_object()) return ToolError(index, "", "an object");
  const auto type = entry.find("type");
  if (type == entry.end() || *type != "function") {
    return ToolError(index, ".type", "\"function\"");
  }
  const auto function = entry.find("function");
  if (function == entry.end() || !function->is_object()) {
    return ToolError(index, ".function", "an object");
  }
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string() || name->get<std::string>().empty()) {
    return ToolError(index, ".function.name", "a string that is not empty");
  }
  Tool tool{.name = name->get<std::string>(), .parameters = {}};
  if (Has(tool.name)) return ToolError(index, ".function.name", "a name that no other tool has");
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_null()) {
    if (!parameters->is_object()) return ToolError(index, ".function.parameters", "an object");
    SchemaTypes types(*parameters);
    const auto properties = parameters->find("properties");
    if (properties != parameters->end() && properties->is_object()) {
      for (const auto& [key, schema] : properties->items()) types.Add(schema);
      types.Settle();
      for (const auto& [key, schema] : properties->items()) {
        tool.parameters.emplace(key, NamesOf(types.TypesOf(types.Add(schema))));
      }
    }
  }
  tools_.push_back(std::move(tool));
  return absl::OkStatus();
}

bool ToolList::Has(std::string_view name) const {
  return std::ranges::any_of(tools_, [&](const Tool& tool) { return tool.name == name; });
}

const std::vector<std::string>& ToolList::TypesOf(std::string_view function,
                                                  std::string_view parameter) const {
  static const std::vector<std::string> kUnknown;
  for (const Tool& tool : tools_) {
    if (tool.name != function) continue;
    const auto known = tool.parameters.find(std::string(parameter));
    if (known != tool.parameters.end()) return known->second;
  }
  return kUnknown;
}

}  // namespace lockstep::router
