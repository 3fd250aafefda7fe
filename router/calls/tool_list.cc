#include "router/calls/tool_list.h"

#include <absl/status/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxSchemaSteps = 200;  // of one parameter: schemas may refer to each other

absl::Status ToolError(size_t index, std::string_view path, std::string_view expected) {
  return absl::InvalidArgumentError(fmt::format("[{}]{}: expected {}", index, path, expected));
}

void AddType(std::string type, std::vector<std::string>& types) {
  if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(std::move(type));
}

std::string TypeOfValue(const nlohmann::json& value) {
  if (value.is_number_float()) return "number";
  return value.is_number() ? "integer" : value.type_name();
}

// Collects the types that a schema allows, without judging the schema. A keyword that says nothing
// about types, or that is wrong, is passed over.
class TypeCollector {
 public:
  // `root`: where references of the form "#/..." begin.
  explicit TypeCollector(const nlohmann::json& root) : root_(root) {}

  std::vector<std::string> Collect(const nlohmann::json& schema) {
    num_steps_ = 0;
    std::vector<std::string> types;
    Add(schema, types);
    return types;
  }

 private:
  void Add(const nlohmann::json& schema, std::vector<std::string>& types) {
    if (!schema.is_object() || ++num_steps_ > kMaxSchemaSteps) return;
    if (const auto type = schema.find("type"); type != schema.end()) {
      AddNames(*type, types);
    } else {
      AddFromValues(schema, types);
    }
    for (const char* const keyword : {"anyOf", "oneOf", "allOf"}) {
      const auto choices = schema.find(keyword);
      if (choices == schema.end() || !choices->is_array()) continue;
      for (const nlohmann::json& choice : *choices) Add(choice, types);
    }
    if (const auto reference = schema.find("$ref"); reference != schema.end()) {
      if (const nlohmann::json* target = Resolve(*reference)) Add(*target, types);
    }
    const auto nullable = schema.find("nullable");
    if (nullable != schema.end() && *nullable == true) AddType("null", types);
  }

  static void AddNames(const nlohmann::json& type, std::vector<std::string>& types) {
    if (type.is_string()) AddType(type.get<std::string>(), types);
    if (!type.is_array()) return;
    for (const nlohmann::json& name : type) {
      if (name.is_string()) AddType(name.get<std::string>(), types);
    }
  }

  static void AddFromValues(const nlohmann::json& schema, std::vector<std::string>& types) {
    if (const auto value = schema.find("const"); value != schema.end()) {
      AddType(TypeOfValue(*value), types);
    }
    const auto values = schema.find("enum");
    if (values == schema.end() || !values->is_array()) return;
    for (const nlohmann::json& value : *values) AddType(TypeOfValue(value), types);
  }

  const nlohmann::json* Resolve(const nlohmann::json& reference) const {
    if (!reference.is_string()) return nullptr;
    const std::string& text = reference.get_ref<const std::string&>();
    if (!text.starts_with("#/")) return nullptr;
    const nlohmann::json* node = &root_;
    for (size_t begin = 2; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      const std::string key = text.substr(begin, end - begin);
      if (!node->is_object() || !node->contains(key)) return nullptr;
      node = &(*node)[key];
      begin = end + 1;
    }
    return node;
  }

  const nlohmann::json& root_;
  size_t num_steps_ = 0;
};

}  // namespace

absl::StatusOr<ToolList> ToolList::Parse(std::string_view json) {
  ToolList list;
  if (json.empty()) return list;
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json tools, ParseJson(json, "tools"));
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
    TypeCollector collector(*parameters);
    const auto properties = parameters->find("properties");
    if (properties != parameters->end() && properties->is_object()) {
      for (const auto& [key, schema] : properties->items()) {
        tool.parameters.push_back({key, collector.Collect(schema)});
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
    for (const Parameter& known : tool.parameters) {
      if (known.name == parameter) return known.types;
    }
  }
  return kUnknown;
}

}  // namespace lockstep::router
