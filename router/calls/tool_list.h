#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// Of a list of tools: the list, a tool and its function, and 64 levels of the schema.
inline constexpr size_t kMaxToolsDepth = 3 + 64;

// The functions that a model may call. Immutable.
class ToolList {
 public:
  // `json`: an array in the form of OpenAI's `tools`, or empty: no tools. INVALID_ARGUMENT gives
  // the path from the array on: "[2].function.name: expected ...".
  static absl::StatusOr<ToolList> Parse(std::string_view json);

  bool empty() const { return tools_.empty(); }
  bool Has(std::string_view name) const;
  // The JSON types that the function's schema allows for this parameter ("string", "integer", ...).
  // Empty: the schema does not say, or there is no such function or parameter.
  const std::vector<std::string>& TypesOf(std::string_view function,
                                          std::string_view parameter) const;

 private:
  struct Tool {
    std::string name;
    absl::flat_hash_map<std::string, std::vector<std::string>> parameters;  // their types
  };

  absl::Status Add(const nlohmann::json& entry, size_t index);

  std::vector<Tool> tools_;
};

}  // namespace lockstep::router
