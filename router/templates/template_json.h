#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::router {

// The arguments of Python's json.dumps that templates may set. The defaults are those of the filter
// tojson in transformers.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; without it, everything is on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// The bytes that json.dumps writes. Throws if a string is not valid UTF-8.
std::string DumpJson(const nlohmann::ordered_json& value, const JsonStyle& style);

}  // namespace lockstep::router
